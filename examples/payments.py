"""Payments, exactly once: two accounts change together or not at all, and a payment that is sent twice is made once.

A payment touches two accounts, which are two keys. A store of a processor belongs to one key; ``Stores.shared`` is
state of all keys: its processors run in one lane, so that a payment reads and writes both accounts as one step.
Balances, receipts, the changelogs of the stores and the offsets of the payments are committed in one Kafka
transaction: after a crash at any moment no payment is lost, made twice, or half made.

What Kafka cannot know is that a *client* has sent a payment twice, because it did not see the answer. So payments
have a number, and ``paid`` keeps the receipt of each for a day: the second one gets the same receipt.

With a broker (``penstock dev``) and the topics ``deposits``, ``payments``, ``receipts`` and ``balances``::

    penstock run examples/payments.py:app

Readers of ``receipts`` and ``balances`` must read committed records only (``isolation.level=read_committed``).
"""

from datetime import timedelta
from typing import Any, TypedDict

from penstock import App, Processor, ProcessorContext, Record, Stores, StreamsBuilder


class Payment(TypedDict):
    """An order to pay; its key is its number."""

    payer: str
    payee: str
    cents: int


class Receipt(TypedDict):
    """What became of a payment."""

    paid: bool
    why: str


class Deposit(Processor[str, int]):
    """Puts money into an account."""

    def process(self, record: Record[str, int]) -> None:
        """Add it, and tell the new balance."""
        balance = self.context.store("balances").merge(record.key, record.value, int.__add__)
        self.context.forward(record.with_value(balance))


class Pay(Processor[str, Payment]):
    """Moves money between two accounts."""

    def init(self, context: ProcessorContext) -> None:
        """Fetch the stores."""
        super().init(context)
        self.balances: Any = context.store("balances")
        self.paid: Any = context.store("paid")

    def process(self, record: Record[str, Payment]) -> None:
        """Make a payment, unless it was made before; the receipt is the same then."""
        receipt: Receipt | None = self.paid.get(record.key)
        if receipt is None:
            receipt = self.pay(record.value, record.timestamp)
            self.paid.put(record.key, receipt)
        self.context.forward(record.with_value(receipt), child="receipts")

    def pay(self, payment: Payment, timestamp: int) -> Receipt:
        """Change both accounts, or none."""
        payer, payee, cents = payment["payer"], payment["payee"], payment["cents"]
        if cents <= 0 or payer == payee:
            return {"paid": False, "why": "not a payment"}
        if (self.balances.get(payer) or 0) < cents:
            return {"paid": False, "why": "not enough money"}
        for account, change in ((payer, -cents), (payee, cents)):
            balance = self.balances.merge(account, change, int.__add__)
            self.context.forward(Record(account, balance, timestamp), child="balances")
        return {"paid": True, "why": ""}


def topology(prefix: str = "") -> StreamsBuilder:
    """Say the program; ``prefix``: of the topics."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.shared("balances"))
    builder.add_state_store(Stores.shared("paid", ttl=timedelta(days=1)))
    builder.stream(f"{prefix}deposits").process(Deposit, stores="balances").to(f"{prefix}balances")
    payments = builder.stream(f"{prefix}payments").process(Pay, stores=["balances", "paid"])
    payments.to(f"{prefix}receipts", name="receipts")
    payments.to(f"{prefix}balances", name="balances")
    return builder


app = App(topology(), application_id="payments")

if __name__ == "__main__":
    app.run()
