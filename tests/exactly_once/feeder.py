"""The input: orders in bursts while the application runs, plain and in transactions, some of which are aborted or stay open for
a while; now and then a new version of the table, for which all orders before are waited for.

So which version an order meets is known, whatever the epochs are cut like. Everything is drawn from one seed.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import Any

from tests.exactly_once.model import Order
from tests.exactly_once.workload import topic

from penstock.clock import SystemClock
from penstock.log.base import Offsets, Row
from penstock.log.kafka import KafkaLog

CUSTOMERS = [f"customer-{number}" for number in range(14)]
ITEMS = ["tea", "pot", "cup", "jam"]
#: bursts between two versions of the table
BURSTS_OF_A_VERSION = 40
PAUSE_SECONDS = 0.05
#: offsets that may wait: an application that is away for long is not buried
MOST_WAITING = 1500


class Feeder(threading.Thread):
    """Writes until it is told to stop. ``orders`` and ``terms`` are what it has committed."""

    def __init__(self, log: KafkaLog, application: str, partitions: dict[str, int], seed: int) -> None:
        super().__init__(daemon=True, name=f"feeder of {application}")
        self._log = log
        self._group = application
        self._topics = {name: topic(application, name) for name in ("orders", "terms")}
        self._places = {
            name: [(self._topics[name], partition) for partition in range(partitions[name])] for name in self._topics
        }
        self._random = random.Random(seed)
        self._plain = log.producer(None)
        self._transactional = log.producer(f"{application}-feeder")
        self._over = threading.Event()
        self._numbers: Counter[str] = Counter()
        self._base = SystemClock().now_ms()
        self._made = 0
        self._version = 0
        self.orders: list[Order] = []
        self.terms: dict[str, int] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write, until ``stop``."""
        try:
            self._transactional.init()
            while not self._over.is_set():
                self._new_version()
                for _ in range(BURSTS_OF_A_VERSION):
                    if self._over.wait(PAUSE_SECONDS):
                        return
                    self._burst()
                    self._wait_until(lambda: self.waiting("orders") < MOST_WAITING)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Write no more; what was begun is finished."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Write no more, whatever went wrong."""
        self._over.set()
        if self.is_alive():
            self.join(30)

    def offsets(self) -> tuple[Offsets, Offsets]:
        """Return where the group stands, and where the input ends."""
        places = [place for these in self._places.values() for place in these]
        return self._log.admin.committed(self._group, places), self._log.admin.end_offsets(places)

    def waiting(self, name: str) -> int:
        """Return how many offsets of a topic the application has not committed."""
        done, ends = self.offsets()
        return sum(ends[place] - done.get(place, 0) for place in self._places[name])

    def _wait_until(self, met: Any) -> None:
        while not self._over.is_set() and not met():
            self._over.wait(PAUSE_SECONDS)

    def _new_version(self) -> None:
        self._wait_until(lambda: self.waiting("orders") == 0)
        if self._over.is_set():
            return
        self._version += 1
        rows: list[Row] = [
            (self._topics["terms"], None, customer.encode(), str(self._version).encode(), self._base + self._made, ())
            for customer in CUSTOMERS
        ]
        self._write(self._plain, rows)
        self.terms = dict.fromkeys(CUSTOMERS, self._version)
        self._wait_until(lambda: self.waiting("terms") == 0)

    def _burst(self) -> None:
        """Write one burst, in one of four ways."""
        match self._random.randrange(8):
            case 0:  # a transaction that is aborted, and records of others behind it
                self._transactional.begin()
                self._transactional.produce(self._row(order) for order in self._draw(-1))
                self._transactional.flush()
                self._commit(self._plain)
                self._over.wait(PAUSE_SECONDS * self._random.randrange(6))
                self._transactional.abort()
            case 1:  # a transaction that stays open for a while
                orders = self._draw()
                self._transactional.begin()
                self._transactional.produce(map(self._row, orders))
                self._transactional.flush()
                self._over.wait(PAUSE_SECONDS * self._random.randrange(6))
                self._transactional.commit()
                self.orders += orders
            case 2 | 3:
                self._commit(self._transactional)
            case _:
                self._commit(self._plain)

    def _commit(self, producer: Any) -> None:
        orders = self._draw()
        self._write(producer, [self._row(order) for order in orders])
        self.orders += orders

    @staticmethod
    def _write(producer: Any, rows: list[Row]) -> None:
        producer.begin()
        producer.produce(rows)
        producer.commit()

    def _draw(self, n: int | None = None) -> list[Order]:
        """Draw orders; those with an ``n`` are never committed, and carry it so that they would be seen."""
        drawn = []
        for _ in range(self._random.randint(1, 25)):
            customer = self._random.choice(CUSTOMERS)
            self._made += self._random.randint(0, 20)
            timestamp = self._base + self._made - self._random.randint(0, 300)
            if n is None:
                self._numbers[customer] += 1
            number = self._numbers[customer] if n is None else n
            item, amount = self._random.choice(ITEMS), self._random.randint(1, 99)
            drawn.append(Order(customer, number, item, amount, timestamp, self._version))
        return drawn

    def _row(self, order: Order) -> Row:
        value = {"customer": order.customer, "n": order.n, "item": order.item, "amount": order.amount}
        return (self._topics["orders"], None, order.customer.encode(), json.dumps(value).encode(), order.timestamp, ())
