"""The loops in C, each with a Python twin under one contract test.

    _grouping          the records of a batch by key; twin: ``serde.groups``
    _partition_queue   what librdkafka has read of a partition, as Arrow columns, and the shard of each key
    _record_batches    Arrow columns as Kafka's record batches
    _sorted_runs       thousands of rows in key order as one LMDB value; twin: ``native.sorted_runs``
    columns.h          what they share: columns of bytes as Arrow has them
    loader             which body of each loop is used

A leaf: imports nothing of the house.
"""
