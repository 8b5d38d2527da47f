"""Bytes in, values out.

General layout:

    base          Serde: two functions and how they travel
    primitives    string, bytes, numbers, boolean, uuid, json, void, pickle
    typed_json    json_of(type)
    avro          avro(type or schema); its parts: avro_schema, avro_types, avro_check, avro_resolution
    protobuf      protobuf(message)
    json_schema   json_schema(type or schema)
    schema_text   a schema as a dict, JSON text or a file
    framing       which schema a value was written with
    with_schemas  these three with a schema registry or without
    registry/     what a serde with a registry is made of
    extras        packages that only some serdes need
    windowed      keys of time windows and sessions
    serdes        Serdes: all of the above under one name
    defaults      those that a program leaves open
    change        Change(new, old) on a repartition topic
    foreign_key   what a foreign-key join sends to and fro
    murmur3       the 128-bit hash in it
"""

from penstock.serde.base import Serde
from penstock.serde.change import ChangedSerde
from penstock.serde.serdes import Serdes
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde

__all__ = ["ChangedSerde", "Serde", "Serdes", "SessionWindowedSerde", "WindowedSerde"]
