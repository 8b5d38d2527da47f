"""The same job for every system that is compared: how many purchases each key has, and what they come to.

    count_sum.py, job.py   Penstock
    CountSum.java          Kafka Streams; java.py compiles it
    lookup.py, Lookup.java the other job, of bench.blocking_lookup: a slow lookup for every record
    system.py              starts one of them as a process of its own, and ends it
    run.py                 lets it work through the data, and measures

A program is told where the broker, the topics and its state are; it prints a line with RUNNING when it works, and ends in
order at the end of its standard input or at SIGTERM.
"""
