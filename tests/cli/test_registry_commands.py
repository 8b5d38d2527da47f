"""Records whose schemas are in a registry, on the command line: against a real broker and a real registry."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from typer.testing import CliRunner

from penstock import Serdes
from penstock.cli.app import app

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "user", "type": "string"}, {"name": "cents", "type": "long"}],
}


@pytest.fixture
def run(kafka_broker, schema_registry):
    def call(*arguments, code=0, stdin=None):
        environment = {
            "PENSTOCK_BOOTSTRAP_SERVERS": kafka_broker.bootstrap_servers,
            "PENSTOCK_REGISTRY": schema_registry.url,
        }
        result = CliRunner().invoke(app, list(arguments), input=stdin, env=environment)
        assert result.exit_code == code, result.output
        return result

    return call


def test_values_are_written_with_the_newest_schema_and_read_as_they_were_written(run, name, schema_registry):
    topic = name("orders")
    run("topics", "create", topic)
    SchemaRegistryClient({"url": schema_registry.url}).register_schema(
        f"{topic}-value", Schema(json.dumps(ORDER), "AVRO")
    )
    run("produce", topic, "--value", "registry", "--key-from", "user", stdin='{"user": "ann", "cents": 250}\n')
    read = run("consume", topic, "--from-beginning", "--until-end", "--value", "registry", "--json").stdout
    assert json.loads(read)["value"] == {"user": "ann", "cents": 250}
    assert Serdes.avro(ORDER, registry=schema_registry.url).bound_to(topic).serialize({"user": "a", "cents": 1})
    refused = run("produce", topic, "--value", "registry", stdin='{"user": "ann", "cents": "many"}\n', code=1)
    assert "line 1" in refused.output


def test_a_topic_without_a_schema_is_told(run, name):
    run("topics", "create", name("bare"))
    refused = run("produce", name("bare"), "--value", "registry", stdin="{}\n", code=1)
    assert f"no subject {name('bare')}-value" in refused.output
