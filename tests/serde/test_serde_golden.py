"""Our bytes against those of the Java classes (tests/golden/serde.json, made by make_serde_golden.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from penstock.record import Change, Windowed
from penstock.serde import ChangedSerde, Serde, Serdes
from penstock.serde.foreign_key import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from penstock.serde.murmur3 import murmur3_128

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "serde.json").read_text())

combined = CombinedKeySerde(Serdes.string, Serdes.string)
SERDES: dict[str, Serde[Any]] = {
    "string": Serdes.string,
    "int32": Serdes.int32,
    "int64": Serdes.int64,
    "float32": Serdes.float32,
    "float64": Serdes.float64,
    "boolean": Serdes.boolean,
    "uuid": Serdes.uuid,
    "windowed": Serdes.windowed(Serdes.string, 1000),
    "windowed_unlimited": Serdes.windowed(Serdes.string, None),
    "session_windowed": Serdes.session_windowed(Serdes.string),
    "changed": ChangedSerde(Serdes.string),
    "subscription": SubscriptionWrapperSerde(Serdes.string),
    "response": SubscriptionResponseWrapperSerde(Serdes.string),
    "combined_key": combined,
    "combined_prefix": Serde(combined.prefix, bytes),
}


def value_of(serde: str, value: Any) -> Any:
    """The Python value of what the golden file says in plain JSON."""
    if value is None:
        return None
    if serde.startswith("float"):
        return float.fromhex(value)
    if serde == "uuid":
        return UUID(value)
    if "windowed" in serde:
        return Windowed(*value)
    if serde == "changed":
        return Change(*value)
    if serde == "combined_key":
        return CombinedKey(*value)
    if serde in ("subscription", "response"):
        hash_ = None if value[0] is None else bytes.fromhex(value[0])
        if serde == "response":
            return SubscriptionResponseWrapper(hash_, *value[1:])
        return SubscriptionWrapper(hash_, Instruction(value[1]), *value[2:])
    return value


def cases(kind: str) -> list[Any]:
    return [pytest.param(row, id=f"{row['serde']}-{row['hex'][:40]}") for row in GOLDEN[kind]]


@pytest.mark.parametrize("row", cases("writes"))
def test_writes_the_bytes_that_java_writes(row: dict[str, Any]) -> None:
    value = value_of(row["serde"], row["value"])
    assert SERDES[row["serde"]].serialize(value).hex() == row["hex"]


@pytest.mark.parametrize("row", cases("reads"))
def test_reads_the_value_that_java_reads(row: dict[str, Any]) -> None:
    value = SERDES[row["serde"]].deserialize(bytes.fromhex(row["hex"]))
    assert value == value_of(row["serde"], row["value"])
    assert type(value) is type(value_of(row["serde"], row["value"]))


@pytest.mark.parametrize("row", cases("refuses"))
def test_refuses_the_bytes_that_java_refuses(row: dict[str, Any]) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011  the natural exception; callers wrap it
        SERDES[row["serde"]].deserialize(bytes.fromhex(row["hex"]))


@pytest.mark.parametrize("row", [pytest.param(row, id=row["hex"][:40]) for row in GOLDEN["hashes"]])
def test_murmur3_equals_that_of_kafka_streams(row: dict[str, Any]) -> None:
    assert murmur3_128(bytes.fromhex(row["hex"])).hex() == row["murmur3"]
