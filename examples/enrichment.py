"""Orders, enriched by an HTTP service: ``map_values_async``.

Each order names a product; a service knows its price. Many requests are under way at a time in every lane, answers
leave in the order of the records, and a request that fails is made again, twice. The service is only read: a request
is made again, too, when an epoch is run again. What it does not know is no error; what it cannot answer at all is a
dead letter.

With a broker (``penstock dev``), the topics ``orders``, ``priced-orders`` and ``orders.dead``, and a service::

    CATALOGUE_URL=http://localhost:8000 penstock run examples/enrichment.py:app

As a script it runs in the test driver, with a service of its own on this machine.

Prints::

    o1: 3 apple, 120
    o2: 1 bread, 320
    o3: 2 dodo, not for sale
    dead: {"product":"anvil","quantity":1} (b'urllib.error.HTTPError')
    requests for bread: 2, for anvil: 3
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.request import urlopen

from penstock import App, Serdes, StreamsBuilder
from penstock.setting_types import AppSettings
from penstock.testing import TopologyTestDriver


class Order(TypedDict):
    """What is ordered, and, once it is known, what it costs."""

    product: str
    quantity: int
    cents: NotRequired[int | None]


class Catalogue:
    """Asks the service. It travels to the workers, so it holds an address and no connection.

    It blocks, and is run in threads; one that is ``async``, with any HTTP library, is called as it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, order: Order) -> Order:
        """Add the price of all items; None: there is no such product."""
        try:
            with urlopen(f"{self.url}/products/{order['product']}", timeout=2) as answer:
                return {**order, "cents": order["quantity"] * json.load(answer)["cents"]}
        except HTTPError as error:
            if error.code == 404:
                return {**order, "cents": None}
            raise


def topology(url: str, prefix: str = "") -> StreamsBuilder:
    """Say the program; ``prefix``: of the topics."""
    builder = StreamsBuilder()
    (
        builder.stream(f"{prefix}orders")
        .map_values_async(
            Catalogue(url), concurrency=50, retries=2, backoff=timedelta(milliseconds=20), name="with-price"
        )
        .to(f"{prefix}priced-orders")
    )
    return builder


def settings(prefix: str = "") -> AppSettings:
    """Say where orders go that the service cannot answer."""
    return {"dead_letter_topic": f"{prefix}orders.dead", "on_processing_error": "dead_letter"}


app = App(topology(os.environ.get("CATALOGUE_URL", "http://localhost:8000")), application_id="enrichment", **settings())


@contextmanager
def service(prices: dict[str, int], fails: dict[str, int]) -> Iterator[tuple[str, Counter[str]]]:
    """Serve prices on a free port; ``fails``: products that are answered with 503 so many times first."""
    asked: Counter[str] = Counter()

    class Prices(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            product = self.path.rpartition("/")[2]
            asked[product] += 1
            code = 503 if asked[product] <= fails.get(product, 0) else 200 if product in prices else 404
            body = json.dumps({"cents": prices.get(product)}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Prices) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def main() -> None:
    """Send four orders through, with a service that is not always well."""
    with (
        service({"apple": 40, "bread": 320}, fails={"bread": 1, "anvil": 99}) as (url, asked),
        TopologyTestDriver(topology(url), config=settings()) as driver,
    ):
        orders = driver.input_topic("orders")
        for number, (product, quantity) in enumerate((("apple", 3), ("bread", 1), ("dodo", 2), ("anvil", 1)), 1):
            orders.pipe(f"o{number}", {"product": product, "quantity": quantity})
        for record in driver.output_topic("priced-orders").read_all():
            order = record.value
            cost = "not for sale" if order["cents"] is None else order["cents"]
            print(f"{record.key}: {order['quantity']} {order['product']}, {cost}")
        for letter in driver.output_topic("orders.dead", value=Serdes.bytes).read_all():
            print(f"dead: {letter.value.decode()} ({dict(letter.headers)['__streams.errors.exception']!r})")
        print(f"requests for bread: {asked['bread']}, for anvil: {asked['anvil']}")


if __name__ == "__main__":
    main()
