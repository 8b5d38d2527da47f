"""``spark.read.format("penstock")``: a store at the last committed barrier as a DataFrame, by PySpark's public data source interface.

Spark makes the source where it plans, asks for the splits, and sends each to a task, which reads it from Kafka and gives it out in
Arrow batches. The barrier is the last one when the query is planned.

Options: ``application_id``, ``store``, ``bootstrap_servers``; ``key``, ``value``: the name of a serde; ``kafka.<name>``: client settings.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import DataType, StructType

from penstock.engine.engine import check_secrets
from penstock.engine.executor import program
from penstock.errors import ConfigError, nearest
from penstock.log.client import portable
from penstock.log.kafka import KafkaLog
from penstock.serde import Serde
from penstock.sql.column_forms import PICKLED, ColumnForm, default_form, form_of, shown
from penstock.sql.committed_store import CommittedStore, Split, find_store
from penstock.sql.store_rows import StoreRows, read_split
from penstock.state.keys import MAX_TIME

FORMAT = "penstock"
REQUIRED = ("application_id", "store", "bootstrap_servers")
OPTIONS = (*REQUIRED, "key", "value")
#: in front of the client settings among the options, as for Spark's own Kafka source
CLIENT = "kafka."
#: rows and bytes of a batch
BATCH, BATCH_BYTES = 1 << 16, 16 << 20
#: the greatest milliseconds that are a time of Spark's, which counts microseconds
_LAST_MS = MAX_TIME // 1000
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class StoreForm:
    """How keys and values of a store are shown."""

    key: ColumnForm
    value: ColumnForm

    @property
    def sql_schema(self) -> str:
        """The columns, as Spark declares them."""
        times = ", ".join(f"{name} timestamp" for name in ("timestamp", "window_start", "window_end"))
        return f"key {self.key.sql_type}, value {self.value.sql_type}, {times}, shard int"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns, as they are given out."""
        times = [(name, _TIME) for name in ("timestamp", "window_start", "window_end")]
        return pa.schema(
            [("key", self.key.arrow_type), ("value", self.value.arrow_type), *times, ("shard", pa.int32())]
        )


def store_form(found: CommittedStore, key: Serde[Any] | str | None, value: Serde[Any] | str | None) -> StoreForm:
    """Return how a store is shown: as is asked for, else by what the epoch record says of its serdes."""
    store = found.store
    return StoreForm(
        default_form(store.key) if key is None else form_of(key, "key"),
        default_form(store.value) if value is None else form_of(value, "value"),
    )


class StoreSplit(InputPartition):
    """What one task reads, and all that it needs for that."""

    def __init__(self, found: CommittedStore, split: Split, form: StoreForm) -> None:
        super().__init__(split.number)
        self.found = found
        self.split = split
        self.form = form


class PenstockDataSource(DataSource):
    """The data source that Spark makes of the options of a reader."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of the store."""
        given = read_options(self.options)
        with closing(given.connect()) as log:
            return given.look(log)[1].sql_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the store."""
        return StoreReader(read_options(self.options), schema)


class StoreReader(DataSourceReader):
    """Finds the splits where the query is planned; reads one in each task."""

    def __init__(self, given: SourceOptions, schema: StructType) -> None:
        self._given = given
        self._columns = schema.names

    def partitions(self) -> list[InputPartition]:
        """Return the splits of the store at the last barrier."""
        with closing(self._given.connect()) as log:
            found, form = self._given.look(log)
        if self._columns != form.arrow_schema.names:
            raise ConfigError(
                f"the columns of a store are {form.sql_schema}: leave schema() out, or use penstock.sql.frame"
            )
        return [StoreSplit(found, split, form) for split in found.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        assert isinstance(partition, StoreSplit)
        with closing(self._given.connect()) as log:
            rows = read_split(log, partition.found, partition.split)
        yield from batches(rows, partition.form, partition.found.store.name)


@dataclass(frozen=True)
class SourceOptions:
    """The options of a reader."""

    application_id: str
    store: str
    bootstrap_servers: str
    key: Serde[Any] | str | None
    value: Serde[Any] | str | None
    kafka: Mapping[str, str] = field(repr=False)

    def connect(self) -> KafkaLog:
        """Reach the cluster."""
        return KafkaLog(self.bootstrap_servers, self.kafka)

    def look(self, log: KafkaLog) -> tuple[CommittedStore, StoreForm]:
        """Find the store at the last barrier, and how it is shown."""
        found = find_store(log, self.application_id, self.store)
        return found, store_form(found, self.key, self.value)


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a reader; refuse unknown ones."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in OPTIONS and not name.startswith(CLIENT):
            raise ConfigError(
                f"the data source 'penstock' has no option {name!r}{nearest(name, OPTIONS)}; it has {', '.join(OPTIONS)} and {CLIENT}*"
            )
    missing = [name for name in REQUIRED if not given.get(name)]
    if missing:
        raise ConfigError(f"the data source 'penstock' needs .option({missing[0]!r}, ...)")
    kafka = {name.removeprefix(CLIENT): value for name, value in given.items() if name.startswith(CLIENT)}
    return SourceOptions(
        given["application_id"],
        given["store"],
        given["bootstrap_servers"],
        given.get("key"),
        given.get("value"),
        kafka,
    )


def batches(rows: StoreRows, form: StoreForm, store: str) -> Iterator[pa.RecordBatch]:
    """Yield rows as they are shown, some at a time."""
    step = max(1, min(BATCH, BATCH_BYTES * rows.size // max(1, rows.keys.nbytes + rows.values.nbytes)))
    for begin in range(0, rows.size, step):
        some = slice(begin, min(begin + step, rows.size))
        columns = [
            shown(rows.keys[some], form.key, "key", store),
            shown(rows.values[some], form.value, "value", store),
            *(_moments(times, some) for times in (rows.times, rows.starts, rows.ends)),
            pa.nulls(some.stop - begin, pa.int32()) if rows.shards is None else pa.array(rows.shards[some]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=form.arrow_schema)


def _moments(times: Any, some: slice) -> pa.Array:
    """Return milliseconds as Spark's times; null where there is none, or no end."""
    if times is None:
        return pa.nulls(some.stop - some.start, _TIME)
    chosen = times[some]
    missing = (chosen < 0) | (chosen > _LAST_MS)
    return pa.array(np.where(missing, 0, chosen) * 1000, pa.int64(), mask=missing).cast(_TIME)


def frame(
    spark: Any,
    application_id: str,
    store: str,
    *,
    bootstrap_servers: str,
    kafka: Mapping[str, Any] | None = None,
    key: Serde[Any] | DataType | str | None = None,
    value: Serde[Any] | DataType | str | None = None,
) -> Any:
    """Return a store at the last committed barrier as a DataFrame (see ``penstock.sql``)."""
    master = _master(spark)
    if master:
        check_secrets(master, kafka or {}, dict(spark.sparkContext.getConf().getAll()))
    settings = dict(kafka or {}) if master.startswith("local") else portable(kafka or {})
    schemas = {name: given for name, given in (("key", key), ("value", value)) if _is_schema(given)}
    serdes: dict[str, Any] = {"key": key, "value": value} | dict.fromkeys(schemas)
    with closing(KafkaLog(bootstrap_servers, settings)) as log:
        found = find_store(log, application_id, store)
        form = store_form(found, serdes["key"], serdes["value"])
    for name, each in (("key", form.key), ("value", form.value)):
        if name in schemas and not (each.is_json or each.name in ("string", "bytes")):
            raise ConfigError(f"{name}= is a schema, but the {name}s of store {store!r} are {each.name}, not JSON")
    spark.dataSource.register(PenstockDataSource)
    options = {
        "application_id": application_id,
        "store": store,
        "bootstrap_servers": bootstrap_servers,
        **{name: _option(form_of(serde, name)) for name, serde in serdes.items() if serde is not None},
        **{f"{CLIENT}{name}": str(setting) for name, setting in settings.items()},
    }
    made = spark.read.format(FORMAT).options(**options).load()
    for name, schema in schemas.items():
        made = made.withColumn(name, _parsed(name, schema))
    return made


def _master(spark: Any) -> str:
    """Return the master of a session; a session of Spark Connect does not say."""
    context = getattr(spark, "sparkContext", None) if hasattr(type(spark), "sparkContext") else None
    return "" if context is None else str(context.master)


def _is_schema(given: Any) -> bool:
    """Whether it is a schema of Spark's, or the text of one: that is more than one word."""
    return isinstance(given, DataType) or (isinstance(given, str) and (" " in given or "<" in given))


def _option(form: ColumnForm) -> str:
    """Return the form of a column as an option; a serde of the program's own has no name, so it goes as it is."""
    if form.serde is None:
        return form.name
    return PICKLED + base64.b64encode(program.dump(form.serde)).decode()


def _parsed(name: str, schema: Any) -> Any:
    """Return a column of JSON as columns; a value that is not such JSON ends the query: null would hide it."""
    from pyspark.sql.functions import col, from_json

    return from_json(col(name).cast("string"), schema, {"mode": "FAILFAST"}).alias(name)
