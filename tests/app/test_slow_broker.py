"""A broker so slow that an epoch takes longer than a transaction may be open is worked off in smaller epochs, with equal results."""

import contextlib
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from penstock import Serdes, Stores, StreamsBuilder
from penstock.dev.broker import QUICK_START, Broker

START = 1_600_000_020_000
RECORDS, TRANSACTION_MS, BYTES_A_SECOND = 3000, 3000, 250_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


class SlowProxy:
    """Passes everything on, what goes to the broker with ``rate`` bytes a second at most."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.target = 0
        self.rate = None
        self._turn = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self):
        self._listener.close()

    def _listen(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.target))
                for ends in (client, broker, True), (broker, client, False):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source, sink, slowed):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if slowed and self.rate and len(data) > 1000:  # small requests are not what a slow line delays
                    with self._turn:
                        time.sleep(len(data) / self.rate)
                sink.sendall(data)
        for end in source, sink:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def proxy():
    made = SlowProxy()
    yield made
    made.close()


@pytest.fixture(scope="module")
def kafka_broker(proxy):
    """A broker behind the proxy that soon gives up on transactions that are too old."""
    settings = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with Broker(java_options=[QUICK_START], settings=settings) as broker:
        proxy.target = broker.port
        yield SimpleNamespace(bootstrap_servers=f"127.0.0.1:{proxy.port}")


def test_an_epoch_that_is_too_slow_for_its_transaction_is_run_in_smaller_ones(start, cluster, proxy):
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = StreamsBuilder()
    counted = builder.stream(lines, **TEXT).group_by_key().count(store=Stores.key_value("counts", cached=False))
    counted.to_stream().map_values(lambda count: f"{count} {'x' * 300}").to(out, **TEXT)
    cluster.send(lines, *((f"k{n % 100}", "v", START) for n in range(RECORDS)))
    driven = start(builder, kafka={"producer.transaction.timeout.ms": TRANSACTION_MS})
    proxy.rate = BYTES_A_SECOND
    try:
        driven.drain()
    finally:
        proxy.rate = None
    assert driven.loop.totals.retries > 0
    assert driven.loop.totals.epochs > 2
    texts = cluster.texts(out)
    assert len(texts) == RECORDS
    assert {key: value.split()[0] for key, value in texts} == {f"k{n}": str(RECORDS // 100) for n in range(100)}
