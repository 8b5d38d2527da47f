"""Stores: typed at the outside, bytes inside.

General layout, from the bytes up:

    base           the contracts: BytesStore, ShardState, Store, Sealed
    memory         a shard's state in memory      lmdb_store, lmdb_write, lmdb_format   and on disk
    lmdb_pages     whether what is on disk is what was written
    write_back     the epoch's writes above a base map
    pending        an epoch's writes as a file     overlay      and read before they are applied
    verbs, rows    what key-value stores share    ttl          rows that end by event time
    key_value      plain, timestamped, shared     lru          bounded
    versioned      every version of a key
    keys, positions, layer, segments, segmented   rows by key and time
    window, session, timers                       the stores above them
    outer_join, join_buffer, buffer               stores inside operators
    spec           Stores: what users say         shards       which key lives where
    open           spec → store                   restore, bulk   changelog → base rows
    view           stores as queries see them
"""
