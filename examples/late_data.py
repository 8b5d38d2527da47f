"""Windows with late data: what is waited for, what is too late, and where it goes.

Clicks are counted for each minute. They arrive out of order: the watermark of the source stays ten seconds behind the
newest click. A window takes clicks until the watermark is twenty seconds (the grace) past its end, and then gives out
its final count. What comes later still, and what cannot be read, is not dropped in silence: it goes to
``clicks.dead``, with its bytes and the reason.

With a broker (``penstock dev``) and the topics ``clicks``, ``clicks-by-minute`` and ``clicks.dead``::

    penstock run examples/late_data.py:app

Prints::

    00:00 home: 3 clicks
    dead: {"page": (JSONDecodeError)
    dead: {"page":"home"} (25 s after the end of [00:00, 01:00))
"""

from datetime import timedelta

from penstock import App, EmitStrategy, LatePolicy, Record, Serdes, StreamsBuilder, TimeWindows, WatermarkStrategy
from penstock.setting_types import AppSettings
from penstock.testing import TopologyTestDriver

MINUTE = timedelta(minutes=1)
GRACE = timedelta(seconds=20)
WATERMARK = WatermarkStrategy.bounded(timedelta(seconds=10))
REASON = "__streams.errors."


def clock(milliseconds: int) -> str:
    """Write minutes and seconds."""
    return f"{milliseconds // 60_000:02d}:{milliseconds // 1000 % 60:02d}"


def topology(prefix: str = "") -> StreamsBuilder:
    """Say the program; ``prefix``: of the topics."""
    builder = StreamsBuilder()
    (
        builder.stream(f"{prefix}clicks", watermark=WATERMARK, late=LatePolicy.dead_letter)
        .group_by(lambda _, click: click["page"], name="by-page")
        .windowed_by(TimeWindows(MINUTE, grace=GRACE))
        .emit(EmitStrategy.on_window_close)
        .count(store="counts")
        .to_stream(key=lambda window, _: f"{clock(window.start)} {window.key}")
        .to(f"{prefix}clicks-by-minute", value=Serdes.int64)
    )
    return builder


def settings(prefix: str = "") -> AppSettings:
    """Say where dead letters go, and that what cannot be read is one, too."""
    return {"dead_letter_topic": f"{prefix}clicks.dead", "on_deserialization_error": "dead_letter"}


app = App(topology(), application_id="late-data", **settings())


def reason(letter: Record[str, bytes]) -> str:
    """Say why a record is a dead letter, from its headers."""
    found = {name.removeprefix(REASON): text.decode() for name, text in letter.headers if text is not None}
    if "window-start" not in found:
        return found["exception"].rpartition(".")[2]
    start, end = clock(int(found["window-start"])), clock(int(found["window-end"]))
    return f"{int(found['late-by-ms']) // 1000} s after the end of [{start}, {end})"


def main() -> None:
    """Send clicks out of order, and show what comes out."""
    with TopologyTestDriver(topology(), config=settings()) as driver:
        clicks = driver.input_topic("clicks")
        for second in (5, 50, 65, 58):  # the last one is late for the newest, and in time for its window
            clicks.pipe(None, {"page": "home"}, second * 1000)
        driver.pipe_raw("clicks", 0, None, b'{"page":', 66_000)
        clicks.pipe(None, {"page": "cart"}, 95_000)  # the watermark is at 01:25: the first minute is over
        clicks.pipe(None, {"page": "home"}, 59_000)
        for record in driver.output_topic("clicks-by-minute").read_all():
            print(f"{record.key}: {record.value} clicks")
        for letter in driver.output_topic("clicks.dead", value=Serdes.bytes).read_all():
            print(f"dead: {letter.value.decode()} ({reason(letter)})")


if __name__ == "__main__":
    main()
