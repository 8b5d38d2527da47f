"""All workloads, by name."""

from __future__ import annotations

from bench.workloads import count_sum, rekey_aggregate, stateless, stream_table_join, tumbling, word_count
from bench.workloads.base import Workload

MODULES = (stateless, count_sum, word_count, rekey_aggregate, tumbling, stream_table_join)

#: in the order in which they are run
WORKLOADS: dict[str, Workload] = {workload.name: workload for module in MODULES for workload in module.WORKLOADS}
