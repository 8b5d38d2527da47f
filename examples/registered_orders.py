"""Orders and refunds in one topic, in Avro, with a schema registry: the balance of each customer.

``events`` holds two kinds of records, each with its own schema: a union of classes, and subjects named by record. A program
that writes an older or a newer `Order` may run beside this one: values are read by the schema they were written with.

With a broker and a registry (``penstock dev --registry``) and the topics ``events`` and ``balances``::

    penstock run examples/registered_orders.py:app
"""

from dataclasses import dataclass

from penstock import App, SchemaRegistry, Serdes, StreamsBuilder


@dataclass
class Order:
    """Something was bought."""

    customer: str
    cents: int
    note: str | None = None


@dataclass
class Refund:
    """Money goes back."""

    customer: str
    cents: int


@dataclass
class Balance:
    """What a customer has paid."""

    cents: int = 0
    orders: int = 0


#: the address is the application's: its setting ``registry``
by_record = SchemaRegistry(subject="record")
events = Serdes.avro(Order | Refund, registry=by_record)
balances = Serdes.avro(Balance, registry=by_record)


def add(customer: str, event: Order | Refund, balance: Balance) -> Balance:
    """Add an order, take off a refund."""
    if isinstance(event, Refund):
        return Balance(balance.cents - event.cents, balance.orders)
    return Balance(balance.cents + event.cents, balance.orders + 1)


builder = StreamsBuilder()
(
    builder.stream("events", value=events)
    .group_by(lambda _, event: event.customer, value=events)
    .aggregate(Balance, add, store="balances", value=balances)
    .to_stream()
    .to("balances", value=balances)
)

#: where ``penstock dev --registry`` has it
app = App(builder, application_id="registered-orders", registry="http://127.0.0.1:8081/apis/ccompat/v7")

if __name__ == "__main__":
    app.run()
