"""Sensors that went quiet: a processor with state and a timer per key.

Each reading sets the sensor's timer anew. A timer that fires means that nothing came for a minute of event time.

Prints::

    00:01:10 kitchen has been silent since 00:00:10
    00:01:45 cellar has been silent since 00:00:45
    00:02:00 kitchen is back
"""

from datetime import timedelta
from typing import Any

from penstock import Processor, ProcessorContext, Record, Stores, StreamsBuilder
from penstock.testing import TopologyTestDriver

QUIET = timedelta(minutes=1) // timedelta(milliseconds=1)


class Watch(Processor[str, float]):
    """Tells when a sensor falls silent, and when it is back."""

    def init(self, context: ProcessorContext) -> None:
        """Fetch the store of the last time that each sensor was heard; negative: it is silent."""
        super().init(context)
        self.heard = context.store("heard")

    def process(self, record: Record[str, float]) -> None:
        """Put the timer off."""
        before = self.heard.get(record.key)
        if before is not None and before >= 0:
            self.context.timers.delete_event_time(record.key, before + QUIET)
        elif before is not None:
            self.context.forward(record.with_value("is back"))
        self.heard.put(record.key, record.timestamp)
        self.context.timers.register_event_time(record.key, record.timestamp + QUIET)

    def on_timer(self, timestamp: int, key: str, context: Any) -> None:
        """Nothing came for a minute."""
        context.forward(Record(key, f"has been silent since {clock(timestamp - QUIET)}", timestamp))
        self.heard.put(key, -1)


def clock(milliseconds: int) -> str:
    """Write a time of day."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


builder = StreamsBuilder()
builder.stream("readings").process(Watch, stores=[Stores.key_value("heard"), Stores.timers("silences")]).to("alarms")

if __name__ == "__main__":
    with TopologyTestDriver(builder) as driver:
        readings = driver.input_topic("readings")
        for second, sensor in (
            (0, "kitchen"),
            (10, "kitchen"),
            (45, "cellar"),
            (80, "attic"),
            (119, "attic"),
            (120, "kitchen"),
        ):
            readings.pipe(sensor, 20.5, second * 1000)
        for record in driver.output_topic("alarms").read_all():
            print(clock(record.timestamp), record.key, record.value)
