"""Kafka's own protocol, as much of it as one writer needs: rows by column become record batches and go out by blocking sockets.

    settings     what of librdkafka's settings is understood here; anything else is left to librdkafka
    primitives   the types of the protocol        requests     the few requests as data
    connection   one connection to a broker       security     TLS and SASL
    cluster      brokers, leaders, coordinators   waiting      how long a call waits for them
    batches      rows → batches of a partition    delivery     batches under way, sent again where they must be
    transactions what the coordinator is told     writer       what both bodies share
    producer     the bodies of ``log.base.Producer``   choice  which writer is used

One thread, no callbacks. On any fault the engine aborts and runs the same epoch again, so nothing is kept that could be made anew.
See docs/decisions/0031.
"""
