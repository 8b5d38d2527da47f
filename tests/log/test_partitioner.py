"""murmur2 and the choice of a partition, against Kafka's own (tests/golden/serde.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.partitioner import murmur2, partition_for

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "serde.json").read_text())["hashes"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["hex"][:40]) for row in GOLDEN])
def test_murmur2_equals_that_of_the_java_client(row: dict[str, Any]) -> None:
    assert murmur2(bytes.fromhex(row["hex"])) == row["murmur2"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["hex"][:40]) for row in GOLDEN])
def test_a_key_goes_where_the_java_producer_sends_it(row: dict[str, Any]) -> None:
    key = bytes.fromhex(row["hex"])
    assert {count: partition_for(key, int(count)) for count in row["partitions"]} == row["partitions"]


@given(st.binary(max_size=200), st.integers(1, 10_000))
def test_a_partition_is_always_one_of_those_there_are(key: bytes, partitions: int) -> None:
    assert -(2**31) <= murmur2(key) < 2**31
    assert 0 <= partition_for(key, partitions) < partitions
