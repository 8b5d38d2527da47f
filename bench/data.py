"""The input of the benchmarks: made from a seed, so that every run and every system meets the same records.

Records come one a millisecond of event time, in order. A value is JSON as text: it is put together here faster than any encoder would.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence

from bench.workloads.base import Size
from penstock.log.base import Row

CHUNK = 20_000
SEED = 7
START_MS = 1_750_000_000_000
ITEMS = ("teapot", "cast-iron-kettle", "tin-of-green-tea", "cup", "wooden-tray", "sugar-bowl", "strainer", "spoon")
LANDS = ("AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "NL", "NO", "PL", "SE")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def chunks(records: int) -> Iterator[range]:
    """Cut numbers of records into parts, for which random numbers are drawn at once.

    >>> list(chunks(25_000))
    [range(0, 20000), range(20000, 25000)]
    """
    for start in range(0, records, CHUNK):
        yield range(start, min(start + CHUNK, records))


def purchases(size: Size, topics: Sequence[str], by_order: bool = False, note: int = 0) -> Iterator[Row]:
    """Yield purchases, keyed by customer or else by order; ``note`` letters make a value longer.

    >>> topic, _, key, value, time, _ = next(purchases(Size(1), ["in"]))
    >>> key, value.decode()
    (b'k16191', '{"order":0,"customer":"k16191","item":"sugar-bowl","amount":15,"paid":true}')
    >>> next(purchases(Size(1), ["in"], by_order=True))[2]
    b'o0'
    """
    rng = random.Random(SEED)
    (topic,) = topics
    text = "".join(random.Random(SEED).choices(LETTERS, k=note))
    more = f',"note":"{text}"' if note else ""
    for numbers in chunks(size.records):
        count = len(numbers)
        keys = rng.choices(range(size.keys), k=count)
        amounts = rng.choices(range(1, 100), k=count)
        items = rng.choices(ITEMS, k=count)
        for order, key, amount, item in zip(numbers, keys, amounts, items, strict=True):
            value = f'{{"order":{order},"customer":"k{key}","item":"{item}","amount":{amount},"paid":true{more}}}'
            named = b"o%d" % order if by_order else b"k%d" % key
            yield topic, None, named, value.encode(), START_MS + order, ()


def lines(size: Size, topics: Sequence[str], words: int = 8) -> Iterator[Row]:
    """Yield lines of text without a key; of ``size.keys`` words some are much more frequent than others.

    >>> next(lines(Size(1, 1000), ["in"], words=3))[3]
    b'w33 w9 w188'
    """
    rng = random.Random(SEED)
    (topic,) = topics
    vocabulary = [f"w{number}" for number in range(size.keys)]
    weights = [1 / (rank + 10) for rank in range(size.keys)]
    for rank in range(1, size.keys):
        weights[rank] += weights[rank - 1]
    for numbers in chunks(size.records):
        chosen = rng.choices(vocabulary, cum_weights=weights, k=len(numbers) * words)
        for number in numbers:
            at = (number - numbers.start) * words
            yield topic, None, None, " ".join(chosen[at : at + words]).encode(), START_MS + number, ()


def customers_and_purchases(size: Size, topics: Sequence[str]) -> Iterator[Row]:
    """Yield a table of customers, all of them first, then purchases; with every tenth purchase a customer moves.

    >>> [(row[0], row[2], row[3].decode()[:13]) for row in customers_and_purchases(Size(3, 2), ["in", "customers"])]
    [('customers', b'k0', '{"land":"ES",'), ('customers', b'k1', '{"land":"AT",'), ('in', b'k1', '{"order":2,"c')]
    """
    rng = random.Random(SEED)
    purchased, customers = topics
    known = min(size.keys, max(1, size.records * 2 // 3))
    for numbers in chunks(size.records):
        count = len(numbers)
        keys = rng.choices(range(known), k=count)
        amounts = rng.choices(range(1, 100), k=count)
        items, lands = rng.choices(ITEMS, k=count), rng.choices(LANDS, k=count)
        for order, key, amount, item, land in zip(numbers, keys, amounts, items, lands, strict=True):
            if order < known or order % 10 == 0:
                key = order if order < known else key
                value = f'{{"land":"{land}","since":{order}}}'
                yield customers, None, b"k%d" % key, value.encode(), START_MS + order, ()
            else:
                value = f'{{"order":{order},"customer":"k{key}","item":"{item}","amount":{amount},"paid":true}}'
                yield purchased, None, b"k%d" % key, value.encode(), START_MS + order, ()


def orders_and_payments(size: Size, topics: Sequence[str], longest_ms: int = 12_000) -> Iterator[Row]:
    """Yield orders, and for each a payment some time later, at most ``longest_ms`` if nothing else is due then.

    >>> [(row[0], row[2], row[3]) for row in orders_and_payments(Size(3), ["orders", "payments"], longest_ms=1)]
    [('orders', b'o0', b'{"amount":8}'), ('orders', b'o1', b'{"amount":54}'), ('payments', b'o0', b'{"paid":8}')]
    """
    rng = random.Random(SEED)
    ordered, paid = topics
    due: list[tuple[int, int, int]] = []
    number = 0
    for numbers in chunks(size.records):
        delays = rng.choices(range(1, longest_ms + 1), k=len(numbers))
        amounts = rng.choices(range(1, 100), k=len(numbers))
        for time, delay, amount in zip(numbers, delays, amounts, strict=True):
            if due and due[0][0] < time:
                _, order, owed = heapq.heappop(due)
                yield paid, None, b"o%d" % order, b'{"paid":%d}' % owed, START_MS + time, ()
            else:
                heapq.heappush(due, (time + delay, number, amount))
                yield ordered, None, b"o%d" % number, b'{"amount":%d}' % amount, START_MS + time, ()
                number += 1


def customers_and_scores(size: Size, topics: Sequence[str]) -> Iterator[Row]:
    """Yield updates of two tables with the same keys; one of fifty deletes a row, of the one table only.

    Where both rows of a key go between two commits, the cached tables of Kafka Streams, and so ours, tell nobody: each side finds the other
    one gone. What stays behind then depends on the commits, and is not compared here.

    >>> [(row[0], row[2], row[3]) for row in customers_and_scores(Size(2, 100), ["customers", "scores"])]
    [('customers', b'k32', b'{"land":"FR"}'), ('customers', b'k15', b'{"land":"DK"}')]
    """
    rng = random.Random(SEED)
    customers, scores = topics
    for numbers in chunks(size.records):
        count = len(numbers)
        keys, draws = rng.choices(range(size.keys), k=count), rng.choices(range(100), k=count)
        lands = rng.choices(LANDS, k=count)
        for number, key, draw, land in zip(numbers, keys, draws, lands, strict=True):
            value = b'{"land":"%s"}' % land.encode() if draw % 2 else b'{"score":%d}' % draw
            topic = customers if draw % 2 else scores
            yield topic, None, b"k%d" % key, None if draw in (0, 2) else value, START_MS + number, ()


def orders_and_customers(size: Size, topics: Sequence[str]) -> Iterator[Row]:
    """Yield two tables: customers, all of them first, and orders that name one; a twentieth of what follows are customers who move.

    >>> [(row[0], row[2], row[3]) for row in orders_and_customers(Size(2, 1), ["orders", "customers"])]
    [('customers', b'k0', b'{"land":"FR"}'), ('orders', b'o1', b'{"customer":"k0","amount":7}')]
    """
    rng = random.Random(SEED)
    orders, customers = topics
    known = min(size.keys, max(1, size.records // 3))
    for numbers in chunks(size.records):
        count = len(numbers)
        keys, draws = rng.choices(range(known), k=count), rng.choices(range(100), k=count)
        lands, which = rng.choices(LANDS, k=count), rng.choices(range(size.records), k=count)
        for number, key, draw, land, order in zip(numbers, keys, draws, lands, which, strict=True):
            if number < known or draw < 5:
                named = b"k%d" % (number if number < known else key)
                yield customers, None, named, b'{"land":"%s"}' % land.encode(), START_MS + number, ()
            else:
                value = b'{"customer":"k%d","amount":%d}' % (key, draw) if draw < 98 else None
                yield orders, None, b"o%d" % order, value, START_MS + number, ()
