"""The board, the alerts and the text form: they name metrics that exist, with labels that these have, in the form Prometheus wants."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.admin import monitoring
from penstock.admin.measurement import Sample
from penstock.admin.metric_table import BY_NAME, METRICS, MetricKind, user_metric
from penstock.admin.prometheus import Collector
from penstock.distribution import Distribution

GOLDEN = Path(__file__).parents[1] / "golden" / "metric_names.txt"
PANELS = [panel for panel in monitoring.board()["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
RULES = [rule.expression for rule in monitoring.ALERTS]


def described(metric) -> str:
    """A line of the golden file."""
    alias = f" = {metric.kafka_streams}" if metric.kafka_streams else ""
    return f"penstock_{metric.name} {metric.kind.value} ({', '.join(metric.labels)}){alias}"


def test_names_types_and_labels_are_frozen():
    """Boards and alerts of users hang on them: a name that changes is a change for users, and belongs into CHANGELOG.md."""
    assert sorted(map(described, METRICS)) == GOLDEN.read_text().splitlines()


def series(expression: str) -> set[str]:
    return set(re.findall(r"penstock_\w+", expression))


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *RULES])
def test_expressions_name_what_exists(expression):
    assert series(expression)
    for name in series(expression):
        own = name.removeprefix("penstock_")
        if own.endswith("_bucket"):
            metric = BY_NAME[own.removesuffix("_bucket")]
            assert metric.kind is MetricKind.HISTOGRAM
        else:
            metric = BY_NAME[own]
            assert metric.kind is not MetricKind.HISTOGRAM
        labels = {"application_id", *metric.labels} | ({"le"} if own.endswith("_bucket") else set())
        for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            assert set(re.split(r", ", group)) <= labels, expression
        if metric.kind is MetricKind.COUNTER:
            assert re.search(rf"(rate|increase)\({name}\b", expression), "a counter is asked for its growth"
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_every_metric_is_on_the_board_once():
    shown = [name.removeprefix("penstock_").removesuffix("_bucket") for each in EXPRESSIONS for name in series(each)]
    assert sorted(shown) == sorted(BY_NAME)
    assert len({panel["id"] for panel in monitoring.board()["panels"]}) == len(monitoring.board()["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS]
    assert len(set(places)) == len(places)
    assert json.loads(monitoring.board_json()) == monitoring.board()


def test_the_alerts_are_those_that_operators_want():
    names = {rule.name for rule in monitoring.ALERTS}
    assert len(names) == len(monitoring.ALERTS) == 5
    text = monitoring.alerts_yaml()
    for rule in monitoring.ALERTS:
        assert f"- alert: {rule.name}\n" in text
        assert json.dumps(rule.expression) in text
        assert re.fullmatch(r"\d+m", rule.lasting)


def one_of_each() -> list[Sample]:
    """A sample of every metric; values of labels that must be escaped."""
    found = []
    for metric in (*METRICS, *USER):
        value: float | Distribution = 1.5
        if metric.kind is MetricKind.HISTOGRAM:
            value = Distribution((0.1, 10))
            value.add(5)
        found.append(Sample(metric.name, tuple(f'a "quoted"\n\\{label}' for label in metric.labels), value))
    return found


USER = [user_metric(*kind) for kind in (("orders", "counter"), ("size", "gauge"), ("waits", "histogram"))]


@pytest.mark.parametrize("names", ["penstock", "kafka_streams", "both"])
def test_the_text_form_is_strict(names):
    text = generate_latest(Collector(one_of_each(), "an app", names, USER)).decode()
    families = list(text_string_to_metric_families(text))
    assert text.endswith("\n")
    seen: set[str] = set()
    current = ""
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE")
            assert (word, name) not in seen, "HELP and TYPE once for each name"
            seen.add((word, name))
            assert rest
            assert (word == "HELP") or name == current, "TYPE follows HELP"
            current = name
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        else:
            name = re.split(r"[{ ]", line)[0]
            assert name in (current, f"{current}_bucket", f"{current}_sum", f"{current}_count"), line
            assert name.startswith(("penstock_", "kafka_"))
    types = dict(line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    own, of_kafka = "penstock_epochs_total" in types, "kafka_stream_thread_commit_total" in types
    assert (own, of_kafka) == {"penstock": (True, False), "kafka_streams": (False, True), "both": (True, True)}[names]
    for name, kind in types.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert not name.endswith(("_bucket", "_count", "_sum")), name
    labels = {value for family in families for sample in family.samples for value in sample.labels.values()}
    assert 'a "quoted"\n\\node' in labels
    for family in families:
        buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
        assert [sample.labels["le"] for sample in buckets][-1:] in ([], ["+Inf"])
        assert [sample.value for sample in buckets] == sorted(sample.value for sample in buckets)


def test_help_says_something_and_ends_as_a_sentence():
    for metric in METRICS:
        assert not metric.help[0].islower(), metric.name
        assert metric.help.endswith("."), metric.name
