"""One table of settings: name, type, default, check, meaning. Docs, environment names and ``[tool.penstock]`` come from it.

Precedence: argument, then ``PENSTOCK_<NAME>`` in the environment, then ``[tool.penstock]`` in pyproject.toml, then the default.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, nearest
from penstock.masking import masked
from penstock.setting_checks import (
    IN_MEMORY,
    PERSISTENT,
    POLICIES,
    UNCAUGHT,
    Check,
    address,
    at_least,
    extractor,
    flag,
    mapping,
    one_of,
    optimisations,
    optional,
    policy,
    registry,
    serde,
    text,
    user_config,
)

logger = logging.getLogger("penstock.config")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. ``parse`` checks a value and brings it to its type, from text too."""

    name: str
    kind: str
    default: Any
    parse: Check
    meaning: str
    heading: str = "behaviour"
    #: whether `App.change` takes it while the application runs
    changeable: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting("application_id", "str", None, optional(text), "Name of the application: consumer group, transactional id, prefix of internal topics."),
    Setting("bootstrap_servers", "str", "localhost:9092", text, "Kafka brokers to start from."),
    Setting("processing_guarantee", "str", "exactly_once", one_of("exactly_once", "at_least_once"), "One transaction per barrier, or none."),
    Setting("on_deserialization_error", "policy", "fail", policy(*POLICIES), "What to do with a record whose bytes its serde refuses: fail, skip, dead_letter or a callable."),
    Setting("on_processing_error", "policy", "fail", policy(*POLICIES), "What to do with a record on which a node raised: fail, skip, dead_letter or a callable."),
    Setting("on_production_error", "policy", "fail", policy(*POLICIES), "What to do with a result that cannot be serialized or sent: fail, skip, dead_letter or a callable, which may also answer retry: the epoch is run again, a few times; for what cannot be serialized that is fail."),
    Setting("epoch_header", "str or None", None, optional(text), "Name of a header that every row written to a topic of the user's gets: the number of its epoch, as text. Rows of one number are one consistent cut. None: no such header."),
    Setting("dead_letter_topic", "str or None", None, optional(text), "Topic of dead letters; needed by the policy dead_letter."),
    Setting("dead_letter_failures", "bool", False, flag, "Keep a copy of the record that ends the application (policy fail) in dead_letter_topic, in a transaction of its own. The record is still the next one to be read: if it fails again, there is another copy."),
    Setting("on_uncaught_error", "policy", "shutdown", policy(*UNCAUGHT), "What becomes of the application when an error ends it: shutdown, restart (from the last barrier, in the same process, after a pause that grows) or a callable of the error that returns one of them. A second instance that has taken over, and what fails before the application has run at all, always end it."),
    Setting("task_timeout_ms", "int", 900_000, at_least(0), "How long an epoch is tried again while the broker does not answer, before that is an error. 0: not at all."),
    Setting("max_task_idle_ms", "int", 0, at_least(-1), "How long records wait for an empty partition whose records they may meet (joins, merged streams with state), from when it is first seen empty. What is on the broker is always read first, so -1 and 0 are the same here: nothing waits for records that are not there yet."),
    Setting("optimize", "names", (), optimisations, "Optimisations of the topology of a builder that is given to `App`, as of `builder.build(optimize=...)`: none, all, or some of reuse_ktable_source_topics, merge_repartition_topics, single_store_self_join (in the environment with commas). A topology that is built already must be built with them."),
    Setting("align_replay", "bool", True, flag, "Read a backlog up to one event time in all partitions, epoch by epoch, so that history joins as it did when it came."),
    Setting("idle_ms", "int", 5_000, at_least(1), "A source partition that is read to its end and quiet for so long holds event time back no more; a source may have its own: idle_after."),
    Setting("user_config", "mapping", {}, user_config, "Values of your own, by name: processors find them in `context.config[\"user_config\"]`. They travel to the workers, so they must be picklable; in the environment, JSON."),
    Setting("default_key_serde", "serde", "string", serde, "The serde of the keys of sources, sinks and stores that say none, and inherit none from upstream: a Serde, the name of one (string, json, int32, int64, float32, float64, boolean, uuid, bytes, pickle, void), or where one is, as module:name."),
    Setting("default_value_serde", "serde", "json", serde, "The serde of values, as default_key_serde is of keys."),
    Setting("default_timestamp_extractor", "extractor", "fail_on_invalid", extractor, "How sources that say no timestamp= find the time of a record: a function of (record) or (record, partition_time), the name of one (fail_on_invalid, skip_on_invalid, partition_time_on_invalid, wall_clock), or where one is, as module:name."),
    Setting("default_store", "str", "persistent", one_of(PERSISTENT, IN_MEMORY), "Where stores keep their rows that do not say persistent=: persistent, on disk, or in_memory. Both are restored from their changelogs. Global tables are on disk."),
    Setting("kafka", "mapping", {}, mapping, "Settings for all Kafka clients, in librdkafka's names; security once for all."),
    Setting("registry", "mapping", None, optional(registry), "The schema registry of serdes with registry=True: a URL, or the options of a SchemaRegistry (`docs/schemas.md`); in the environment a URL or JSON."),
    Setting("replication_factor", "int", -1, at_least(-1), "Replication of internal topics; -1 is the broker's default."),
    Setting("snapshot_timeout_ms", "int", 300_000, at_least(1), "A snapshot, or a scan of a query, that is open for longer is ended at the next barrier, so that the local state does not grow without end; `app.snapshot(timeout=...)` gives another time."),
    Setting("admin", "str or None", None, optional(address), "host:port where the application answers over HTTP (`docs/http.md`); a port alone is one of 127.0.0.1, which no other machine can reach; port 0 chooses a free one (`app.admin_address`). None: nowhere."),
    Setting("admin_token", "str or None", None, optional(text), "What a request over HTTP that changes something (pause, resume, levels of loggers) must bring: `Authorization: Bearer <token>`. None: such requests are refused."),
    Setting("log_format", "str", "text", one_of("text", "json"), "How log lines are written to standard error where the program has not set up logging itself: text for people, or a JSON object a line, with application, epoch, lane, shard, node, topic, partition and offset as fields (`docs/logs.md`)."),
    Setting("tracing", "bool", False, flag, "Trace epochs with OpenTelemetry: a span for each attempt of an epoch, one in it for each step, links to the traces of the records (`docs/tracing.md`). Needs the extra `otel`; where spans go the program says."),
    Setting("metrics_names", "str", "penstock", one_of("penstock", "kafka_streams", "both"), "Names of the metrics at `/metrics`: Penstock's, those of Kafka Streams where there is one of the same meaning, or both (`docs/metrics.md`)."),
    Setting("cache_max_bytes", "int or None", None, optional(at_least(0)), "Bytes of updates that cached stores hold back until the barrier, over all shards, each of which has its part; when it is full they forward, and go on with an empty cache. 0: every update is forwarded as it is made, and records that reach cached stores go one by one. None: no limit but the size of an epoch. No last value of a key and no final result depends on it. May be changed while the application runs.", changeable=True),
    Setting("stall_limit_ms", "int", 300_000, at_least(1_000), "How long one step of an epoch may take, while the broker answers, before `/health/live` says that the application is stalled. May be changed while the application runs.", changeable=True),
    Setting("master", "str", "local[*]", text, "Spark master.", "performance"),
    Setting("lanes", "int or None", None, optional(at_least(1)), "Parallel lanes; None: the number of cores.", "performance"),
    Setting("shards", "int", 16, at_least(1), "Units of state, fixed when the application is first started.", "performance"),
    Setting("commit_interval_ms", "int", 100, at_least(0), "Least time between two barriers.", "performance"),
    Setting("max_epoch_records", "int", 1_000_000, at_least(1), "Most input records of one epoch; fewer if they are large (max_epoch_bytes), or slow: an epoch and its commit aim at 5 seconds at most.", "performance"),
    Setting("max_epoch_bytes", "int", 256 << 20, at_least(1), "Bytes of input records, as they are read, that one epoch aims not to exceed, by the size of those of the epoch before; a task that reads half as much again gives up, and the epoch is run again with fewer.", "performance"),
    Setting("inline_epoch_records", "int", 20_000, at_least(0), "Most input records of an inline epoch: the driver reads them itself and hands them to resident tasks, the quicker way for few records. 0: no epoch is inline.", "performance"),
    Setting("executor", "str", "auto", one_of("auto", "spark", "spark_fast", "in_process"), "What runs the jobs of epochs: spark, PySpark's public interface alone, or spark_fast, classes below it, with the same results in fewer milliseconds; in_process: no tasks of Spark, the lanes run in this process, one after the other, for a debugger or a profiler (local masters only). auto: spark_fast with the versions of Spark that it was tested with, else spark, with a warning.", "performance"),
    Setting("state_dir", "str or None", None, optional(text), "Folder of the local state; None: a folder below the user's cache.", "performance"),
)  # fmt: skip

_BY_NAME = {setting.name: setting for setting in SETTINGS}
#: former names of settings, which still work
RENAMED = {"letter_records": "inline_epoch_records"}


def setting(name: str) -> Setting:
    """Return the row of a setting, or raise with the nearest match.

    >>> setting("lane")
    Traceback (most recent call last):
    penstock.errors.ConfigError: unknown setting 'lane' (did you mean 'lanes'?)
    """
    if name not in _BY_NAME:
        raise ConfigError(f"unknown setting {name!r}{nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def load(
    given: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None, pyproject: Path | None = None
) -> dict[str, Any]:
    """Return every setting with its value, checked.

    >>> load({"lanes": 4}, environ={})["lanes"]
    4
    >>> load({}, environ={"PENSTOCK_SHARDS": "8"})["shards"]
    8
    """
    environ = os.environ if environ is None else environ
    result = {row.name: row.default for row in SETTINGS}
    for name, value in _from_pyproject(pyproject).items():
        result[_current(name, "[tool.penstock]")] = _parse(name, value, "[tool.penstock]")
    for name in (*RENAMED, *_BY_NAME):
        variable = f"PENSTOCK_{name.upper()}"
        if variable in environ:
            result[_current(name, variable)] = _parse(name, environ[variable], variable)
    for name, value in (given or {}).items():
        result[_current(name, "argument")] = _parse(name, value, "argument")
    policies = [result[n] for n in ("on_deserialization_error", "on_processing_error", "on_production_error")]
    if result["dead_letter_failures"] and result["dead_letter_topic"] is None:
        raise ConfigError("dead_letter_failures needs dead_letter_topic='...': set it")
    if "dead_letter" in policies and result["dead_letter_topic"] is None:
        raise ConfigError("the policy dead_letter needs dead_letter_topic='...': set it, or use skip or fail")
    return result


def changed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that a running application is to have from now on, checked.

    >>> changed({"cache_max_bytes": "0"})
    {'cache_max_bytes': 0}
    >>> changed({"shards": 4})
    Traceback (most recent call last):
    penstock.errors.ConfigError: shards cannot be changed while the application runs, only cache_max_bytes, stall_limit_ms
    """
    for name in given:
        if not setting(name).changeable:
            those = ", ".join(row.name for row in SETTINGS if row.changeable)
            raise ConfigError(f"{name} cannot be changed while the application runs, only {those}")
    return {name: _parse(name, value, "argument") for name, value in given.items()}


def _from_pyproject(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    table = tomllib.loads(path.read_text()).get("tool", {}).get("penstock", {})
    return dict(table)


def _current(name: str, source: str) -> str:
    """Return the name that a setting has now; warn if it was given by a former one."""
    if name in RENAMED:
        logger.warning("the setting %s (from %s) is now called %s: rename it", name, source, RENAMED[name])
    return RENAMED.get(name, name)


def _parse(name: str, value: Any, source: str) -> Any:
    row = setting(RENAMED.get(name, name))
    try:
        return row.parse(value)
    except (ValueError, TypeError) as error:
        # of a mapping nothing is shown, not even in the cause: what is no mapping may hold a secret anywhere
        shown = "" if row.kind == "mapping" else f"={masked(value)!r}"
        raise ConfigError(f"{name}{shown} (from {source}): {error}") from None


def json_schema() -> dict[str, Any]:
    """Return the settings as JSON Schema: of ``[tool.penstock]``, and of a file in another format with the same names.

    >>> json_schema()["properties"]["shards"]["minimum"]
    1
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of a Penstock application",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            row.name: {**row.parse.schema, "default": row.default, "description": row.meaning} for row in SETTINGS
        },
    }


def table() -> str:
    """Return the settings as a Markdown table, for the documentation."""
    lines = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for heading in ("behaviour", "performance"):
        lines.append(f"| **{heading}** | | | |")
        lines += [
            f"| `{row.name}` | {row.kind} | `{row.default!r}` | {row.meaning} |"
            for row in SETTINGS
            if row.heading == heading
        ]
    return "\n".join(lines)
