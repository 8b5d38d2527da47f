"""The programs of the systems that are compared.

    program.py    Penstock: runs a job of bench/workloads
    Jobs.java     Kafka Streams, a method for each job; java.py compiles it
    quix.py       quixstreams, with packages of its own (packages.py)
    structured.py Spark's own streaming
    system.py     how a program is started, which jobs it can do
    process.py    the program while it runs

A program is told where the broker, the topics and its state are; it prints a line with RUNNING when it works, and ends in
order at the end of its standard input or at SIGTERM.
"""
