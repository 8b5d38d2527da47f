"""``penstock dev --registry``: broker and registry in one command; schemas are kept with the records, and nothing is left running.

The long form: it starts a broker and a registry of its own three times.
"""

import json
import os
import signal
import subprocess
import sys

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from penstock import Serdes
from penstock.dev import server
from penstock.dev.watch import await_end

pytestmark = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "user", "type": "string"}]}


@pytest.fixture
def dev(tmp_path):
    """Start the command, always on the same ports and folder; say what it announces."""
    ports = server.free_ports("127.0.0.1", 2)
    options = [
        "--registry",
        "--port",
        str(ports[0]),
        "--registry-port",
        str(ports[1]),
        "--data",
        str(tmp_path / "data"),
    ]
    running = []

    def start(*more):
        command = [sys.executable, "-c", "from penstock.cli import main; main()", "dev", "--json", *options, *more]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        facts = json.loads(running[-1].stdout.readline())
        assert facts["bootstrap_servers"] == f"127.0.0.1:{ports[0]}"
        assert facts["registry"].startswith(f"http://127.0.0.1:{ports[1]}/")
        return running[-1], facts

    yield start
    for process in running:
        process.kill()
        process.communicate()


def interrupted(process, facts):
    """End it as Ctrl-C does: in order, and with both servers."""
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert await_end([facts["pid"], facts["registry_pid"]], 1)
    assert server.is_free("127.0.0.1", int(facts["bootstrap_servers"].rpartition(":")[2]))


def test_dev_runs_a_registry_whose_schemas_are_kept_with_the_records(dev):
    process, facts = dev()
    orders = Serdes.avro(ORDER, registry=facts["registry"]).bound_to("orders")
    data = orders.serialize({"user": "ann"})
    interrupted(process, facts)

    process, facts = dev()
    registry = SchemaRegistryClient({"url": facts["registry"]})
    assert registry.get_subjects() == ["orders-value"]
    again = Serdes.avro(ORDER, registry=facts["registry"]).bound_to("orders")
    assert again.deserialize(data) == {"user": "ann"}
    other = Schema(json.dumps({**ORDER, "fields": [{"name": "n", "type": "int"}]}), "AVRO")
    with pytest.raises(SchemaRegistryError, match=r"(?i)incompatible"):  # as Confluent's registry unless told otherwise
        registry.register_schema("orders-value", other)
    interrupted(process, facts)

    process, facts = dev("--fresh")
    assert SchemaRegistryClient({"url": facts["registry"]}).get_subjects() == []
    interrupted(process, facts)


def test_a_registry_whose_port_is_taken_is_named_and_the_broker_ends_with_it(dev):
    process, facts = dev()
    (port,) = server.free_ports("127.0.0.1", 1)
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "dev", "--registry", "--port", str(port)]
    command += [
        "--registry-port",
        facts["registry"].split(":")[2].partition("/")[0],
        "--data",
        facts["data"] + "-other",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is taken by another program" in done.stderr
    assert not server.answers("127.0.0.1", port)
    interrupted(process, facts)
