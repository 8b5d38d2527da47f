"""Stores: typed at the outside, bytes inside.

General layout, from the bytes up:

    base           the contracts: BytesStore, ShardState, Store, Sealed
    memory         a shard's state in memory      lmdb_store, lmdb_format   and on disk
    write_back     the epoch's writes above a base map
    verbs, rows    what key-value stores share    ttl          rows that end by event time
    key_value      plain, timestamped, shared     lru          bounded
    versioned      every version of a key
    keys, positions, layer, segments, segmented   rows by key and time
    window, session, timers                       the stores above them
    outer_join, join_buffer, buffer               stores inside operators
    spec           Stores: what users say         shards       which key lives where
    open           spec → store                   restore      changelog → base rows
    view           stores as queries see them
"""
