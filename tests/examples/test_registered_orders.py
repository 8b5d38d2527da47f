"""examples/registered_orders.py adds orders and refunds of one topic, each with its own schema in a real registry."""

from confluent_kafka.schema_registry import SchemaRegistryClient
from examples.registered_orders import Balance, Order, Refund, balances, builder, events

from penstock.testing import TopologyTestDriver


def test_orders_and_refunds_of_one_topic_are_added(schema_registry):
    with TopologyTestDriver(builder, config={"registry": schema_registry.url}) as driver:
        source = driver.input_topic("events", value=events)
        for event in (Order("ann", 250), Order("bob", 100, "gift"), Refund("ann", 50), Order("ann", 1)):
            source.pipe(None, event)
        found = driver.output_topic("balances", value=balances).read_table()
    assert found == {"ann": Balance(201, 2), "bob": Balance(100, 1)}
    subjects = SchemaRegistryClient({"url": schema_registry.url}).get_subjects()
    assert {"Order", "Refund", "Balance"} <= set(subjects)
