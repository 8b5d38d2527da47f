"""Kafka's own protocol, as much of it as one writer needs: rows by column become record batches and go out by blocking sockets.

    protocol/    no I/O: primitives (types of the protocol), requests (as data), batches (rows → batches of a partition)
    net/         connection (to one broker), security (TLS and SASL), cluster (brokers, leaders, coordinators), waiting (how long)
    settings     what of librdkafka's settings is understood here; anything else is left to librdkafka
    delivery     batches under way, sent again where they must be
    transactions what the coordinator is told
    writer       what both producers share
    producer     the producers: transactional, and at least once
    errors       what goes wrong on the wire

One thread, no callbacks. On any fault the engine aborts and runs the same epoch again, so nothing is kept that could be made anew.
See docs/decisions/0031.
"""
