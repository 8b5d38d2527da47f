"""All workloads, by name."""

from __future__ import annotations

from bench.workloads import (
    count_sum,
    count_sum_bad,
    foreign_key_join,
    growth,
    hopping,
    live,
    lookup,
    processor,
    rekey_aggregate,
    session,
    stateless,
    stream_stream_join,
    stream_table_join,
    table_table_join,
    tumbling,
    word_count,
)
from bench.workloads.base import Workload

#: in the order in which they are run
MODULES = (
    stateless,
    count_sum,
    count_sum_bad,
    word_count,
    rekey_aggregate,
    tumbling,
    hopping,
    session,
    stream_table_join,
    stream_stream_join,
    table_table_join,
    foreign_key_join,
    processor,
    live,
    lookup,
    growth,
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for module in MODULES for workload in module.WORKLOADS}
