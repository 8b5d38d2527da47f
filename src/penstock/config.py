"""One table of settings: name, type, default, check, meaning. Docs, environment names and ``[tool.penstock]`` come from it.

Precedence: argument, then ``PENSTOCK_<NAME>`` in the environment, then ``[tool.penstock]`` in pyproject.toml, then the default.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, nearest
from penstock.masking import masked

logger = logging.getLogger("penstock.config")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. ``parse`` checks a value and brings it to its type, from text too."""

    name: str
    kind: str
    default: Any
    parse: Callable[[Any], Any]
    meaning: str
    heading: str = "behaviour"
    #: whether `App.change` takes it while the application runs
    changeable: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a non-empty string")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None or value == "" else _text(value)


def _at_least(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError("must be a whole number")
        number = int(value)
        if number < least:
            raise ValueError(f"must be at least {least}")
        return number

    return parse


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or value == "" else parse(value)


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}{nearest(str(value), choices)}")
        return str(value)

    return parse


def _flag(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


POLICIES = ("fail", "skip", "dead_letter")
#: what else a function may answer about a row that was not sent: run the epoch again
RETRY = "retry"


def _policy(value: Any) -> Any:
    return value if callable(value) else _one_of(*POLICIES)(value)


#: answers of ``on_uncaught_error``
UNCAUGHT = ("shutdown", "restart")


def _uncaught(value: Any) -> Any:
    return value if callable(value) else _one_of(*UNCAUGHT)(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of client settings: kafka={...}, or a table [tool.penstock.kafka]")
    return dict(value)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address; a port alone is one of this machine, which no other can reach.

    >>> split_address("8080"), split_address("0.0.0.0:80"), split_address("[::1]:0")
    (('127.0.0.1', 8080), ('0.0.0.0', 80), ('::1', 0))
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or (":" in host and "[" not in address):
        raise ValueError("must be host:port, or a port alone for 127.0.0.1; port 0 chooses a free one")
    return host, int(port)


def _address(value: Any) -> str:
    host, port = split_address(str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _user_config(value: Any) -> dict[str, Any]:
    given = json.loads(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError("must be a mapping of names to values")
    for name, part in given.items():
        try:
            pickle.dumps(part)
        except Exception as error:
            raise ValueError(
                f"{name!r} cannot travel to the workers ({type(error).__name__}: {error}): give what can be pickled, and make connections "
                "and the like of it with context.resource(name, make)"
            ) from error
    return dict(given)


SETTINGS: tuple[Setting, ...] = (
    Setting("application_id", "str", None, _optional_text, "Name of the application: consumer group, transactional id, prefix of internal topics."),
    Setting("bootstrap_servers", "str", "localhost:9092", _text, "Kafka brokers to start from."),
    Setting("processing_guarantee", "str", "exactly_once", _one_of("exactly_once", "at_least_once"), "One transaction per barrier, or none."),
    Setting("on_deserialization_error", "policy", "fail", _policy, "What to do with a record whose bytes its serde refuses: fail, skip, dead_letter or a callable."),
    Setting("on_processing_error", "policy", "fail", _policy, "What to do with a record on which a node raised: fail, skip, dead_letter or a callable."),
    Setting("on_production_error", "policy", "fail", _policy, "What to do with a result that cannot be serialized or sent: fail, skip, dead_letter or a callable, which may also answer retry: the epoch is run again, a few times; for what cannot be serialized that is fail."),
    Setting("epoch_header", "str or None", None, _optional_text, "Name of a header that every row written to a topic of the user's gets: the number of its epoch, as text. Rows of one number are one consistent cut. None: no such header."),
    Setting("dead_letter_topic", "str or None", None, _optional_text, "Topic of dead letters; needed by the policy dead_letter."),
    Setting("dead_letter_failures", "bool", False, _flag, "Keep a copy of the record that ends the application (policy fail) in dead_letter_topic, in a transaction of its own. The record is still the next one to be read: if it fails again, there is another copy."),
    Setting("on_uncaught_error", "policy", "shutdown", _uncaught, "What becomes of the application when an error ends it: shutdown, restart (from the last barrier, in the same process, after a pause that grows) or a callable of the error that returns one of them. A second instance that has taken over, and what fails before the application has run at all, always end it."),
    Setting("task_timeout_ms", "int", 900_000, _at_least(0), "How long an epoch is tried again while the broker does not answer, before that is an error. 0: not at all."),
    Setting("max_task_idle_ms", "int", 0, _at_least(-1), "How long records wait for an empty partition whose records they may meet (joins, merged streams with state), from when it is first seen empty. What is on the broker is always read first, so -1 and 0 are the same here: nothing waits for records that are not there yet."),
    Setting("align_replay", "bool", True, _flag, "Read a backlog up to one event time in all partitions, epoch by epoch, so that history joins as it did when it came."),
    Setting("idle_ms", "int", 5_000, _at_least(1), "A source partition that is read to its end and quiet for so long holds event time back no more; a source may have its own: idle_after."),
    Setting("user_config", "mapping", {}, _user_config, "Values of your own, by name: processors find them in `context.config[\"user_config\"]`. They travel to the workers, so they must be picklable; in the environment, JSON."),
    Setting("kafka", "mapping", {}, _mapping, "Settings for all Kafka clients, in librdkafka's names; security once for all."),
    Setting("replication_factor", "int", -1, _at_least(-1), "Replication of internal topics; -1 is the broker's default."),
    Setting("snapshot_timeout_ms", "int", 300_000, _at_least(1), "A snapshot, or a scan of a query, that is open for longer is ended at the next barrier, so that the local state does not grow without end; `app.snapshot(timeout=...)` gives another time."),
    Setting("admin", "str or None", None, _optional(_address), "host:port where the application answers over HTTP (`docs/http.md`); a port alone is one of 127.0.0.1, which no other machine can reach; port 0 chooses a free one (`app.admin_address`). None: nowhere."),
    Setting("admin_token", "str or None", None, _optional_text, "What a request over HTTP that changes something (pause, resume, levels of loggers) must bring: `Authorization: Bearer <token>`. None: such requests are refused."),
    Setting("metrics_names", "str", "penstock", _one_of("penstock", "kafka_streams", "both"), "Names of the metrics at `/metrics`: Penstock's, those of Kafka Streams where there is one of the same meaning, or both (`docs/metrics.md`)."),
    Setting("cache_max_bytes", "int or None", None, _optional(_at_least(0)), "Bytes of updates that cached stores hold back until the barrier, over all shards, each of which has its part; when it is full they forward, and go on with an empty cache. 0: every update is forwarded as it is made, and records that reach cached stores go one by one. None: no limit but the size of an epoch. No last value of a key and no final result depends on it. May be changed while the application runs.", changeable=True),
    Setting("stall_limit_ms", "int", 300_000, _at_least(1_000), "How long one step of an epoch may take, while the broker answers, before `/health/live` says that the application is stalled. May be changed while the application runs.", changeable=True),
    Setting("master", "str", "local[*]", _text, "Spark master.", "performance"),
    Setting("lanes", "int or None", None, _optional(_at_least(1)), "Parallel lanes; None: the number of cores.", "performance"),
    Setting("shards", "int", 16, _at_least(1), "Units of state, fixed when the application is first started.", "performance"),
    Setting("commit_interval_ms", "int", 100, _at_least(0), "Least time between two barriers.", "performance"),
    Setting("max_epoch_records", "int", 1_000_000, _at_least(1), "Most input records of one epoch; fewer if they are large (max_epoch_bytes), or slow: an epoch and its commit aim at 5 seconds at most.", "performance"),
    Setting("max_epoch_bytes", "int", 256 << 20, _at_least(1), "Bytes of input records, as they are read, that one epoch aims not to exceed, by the size of those of the epoch before; a task that reads half as much again gives up, and the epoch is run again with fewer.", "performance"),
    Setting("inline_epoch_records", "int", 20_000, _at_least(0), "Most input records of an inline epoch: the driver reads them itself and hands them to resident tasks, the quicker way for few records. 0: no epoch is inline.", "performance"),
    Setting("executor", "str", "auto", _one_of("auto", "spark", "spark_fast"), "What runs Spark's jobs: spark, PySpark's public interface alone, or spark_fast, classes below it, with the same results in fewer milliseconds. auto: spark_fast with the versions of Spark that it was tested with, else spark, with a warning.", "performance"),
    Setting("state_dir", "str or None", None, _optional_text, "Folder of the local state; None: a folder below the user's cache.", "performance"),
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
