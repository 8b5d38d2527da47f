"""The loops in C, each with a Python twin under one contract test (docs/decisions/0040).

    _grouping          the records of a batch by key, and the shard of each key; twins: beside ``Groups``, and in ``state.shards``
    _partition_queue   what a consumer has fetched of a partition, as Arrow columns; twin: ``log.partition_queue.MessageQueue``
    _record_batches    Arrow columns as Kafka's record batches; twin: ``record_batches``
    _sorted_runs       thousands of rows in key order as one LMDB value; twin: ``sorted_runs``
    columns.h          what they share: columns of bytes as Arrow has them, and checksums; ``columns`` is the same for Python
    loader             which body of each loop is used

A leaf: imports nothing of the house.
"""
