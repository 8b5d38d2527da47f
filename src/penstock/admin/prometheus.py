"""``/metrics``: the samples in Prometheus' text form, or OpenMetrics where that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import HEADERS
from penstock.admin.inspection import served
from penstock.admin.measurement import Sample, measure, user_table
from penstock.admin.metric_table import METRICS, Metric, MetricKind
from penstock.admin.served_app import ServedApp
from penstock.distribution import Distribution

FAMILIES = {
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.HISTOGRAM: HistogramMetricFamily,
    MetricKind.INFO: InfoMetricFamily,
}


class Collector:
    """What prometheus-client asks for families; a registry of its own, so that others in this process stay out."""

    def __init__(self, samples: Iterable[Sample], application_id: str, names: str, user: Iterable[Metric] = ()) -> None:
        #: metrics of user code
        self._user = tuple(user)
        self._samples = samples
        self._application_id = application_id
        self._names = names

    def collect(self) -> Iterator[Any]:
        """Yield the families that have samples, in the order of the table."""
        by_name: dict[str, list[Sample]] = {}
        for sample in self._samples:
            by_name.setdefault(sample.name, []).append(sample)
        for metric in (*METRICS, *self._user):
            if metric.name in by_name:
                for name in self._shown(metric):
                    yield self._family(metric, name, by_name[metric.name])

    def _shown(self, metric: Metric) -> list[str]:
        own, other = f"penstock_{metric.name}", metric.kafka_streams
        if self._names == "penstock" or other is None:
            return [own]
        return [other] if self._names == "kafka_streams" else [own, other]

    def _family(self, metric: Metric, name: str, samples: list[Sample]) -> Any:
        labels = ["application_id", *metric.labels]
        if metric.kind is MetricKind.INFO:  # its labels are its value
            made = InfoMetricFamily(name.removesuffix("_info"), metric.help, labels=["application_id"])
            for sample in samples:
                made.add_metric([self._application_id], dict(zip(metric.labels, sample.labels, strict=True)))
            return made
        family: Any = FAMILIES[metric.kind](name, metric.help, labels=labels)
        for sample in samples:
            values = [self._application_id, *sample.labels]
            if isinstance(sample.value, Distribution):
                family.add_metric(values, *_histogram(sample.value))
            else:
                family.add_metric(values, sample.value)
        return family


def _histogram(found: Distribution) -> tuple[list[tuple[str, float]], float]:
    bounds = [*(repr(float(bound)) for bound in found.bounds), "+Inf"]
    return list(zip(bounds, map(float, found.cumulative()), strict=True)), found.total


def all_samples(running: ServedApp, requests: Counter[tuple[str, str]], subscribers: int) -> Iterator[Sample]:
    """Yield the samples of the application, and those of its server."""
    yield from measure(running)
    yield Sample("subscribers", (), subscribers)
    for (route, code), count in dict(requests).items():
        yield Sample("http_requests_total", (route, code), count)


async def metrics(request: Request) -> Response:
    """All metrics, as Prometheus reads them."""
    running, state = served(request), request.app.state
    samples = list(await running.in_thread(list, all_samples(running, state.requests, state.notifier.subscribers)))
    config = running.app.config
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    text = encode(Collector(samples, config["application_id"], config["metrics_names"], user_table(running).values()))
    return Response(text, 200, {**HEADERS, "content-type": media_type})
