"""``penstock dev``: a real Kafka broker on this machine, in the foreground; with ``--registry`` a schema registry beside it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.bars import downloading
from penstock.cli.output import JsonOption

if TYPE_CHECKING:
    from penstock.dev.broker import Broker
    from penstock.dev.registry import RegistryServer


def dev(
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 9092,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the records, which is kept.", show_default="in the user's cache folder"),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin with an empty folder.")] = False,
    auto_create: Annotated[bool, typer.Option("--auto-create", help="Make topics when they are first used.")] = False,
    registry: Annotated[bool, typer.Option("--registry", help="Run a schema registry, too.")] = False,
    registry_port: Annotated[int, typer.Option(help="Port of the schema registry.", min=1, max=65535)] = 8081,
    heap: Annotated[int, typer.Option(help="Memory of the broker in megabytes.", min=128)] = 512,
    as_json: JsonOption = False,
) -> None:
    """Run a Kafka broker here until Ctrl-C. Its jars are fetched once; its records are kept from run to run."""
    from penstock.dev.broker import Broker
    from penstock.dev.jars import cache_root
    from penstock.dev.server import JARS

    folder = data if data is not None else cache_root() / f"kafka-{port}"
    with interruptible(), downloading("Kafka", JARS) as tell:
        broker = Broker(
            port=port, data=folder, fresh=fresh, heap_mb=heap, auto_create_topics=auto_create, progress=tell
        ).start()
    schemas = None
    with interruptible():
        try:
            if registry:
                schemas = _registry(registry_port, folder / "registry", fresh=fresh)
            _announce(broker, schemas, as_json)
            while True:
                broker.wait(1)
                if schemas is not None:
                    schemas.wait(1)
        except KeyboardInterrupt:
            if not as_json:
                print("\nStopping ...")
        finally:
            if schemas is not None:
                schemas.stop()
            broker.stop()


def _registry(port: int, folder: Path, *, fresh: bool) -> RegistryServer:
    """Start a schema registry; its schemas are kept beside the broker's records, and go with them."""
    from penstock.dev.registry import RegistryServer

    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    with downloading("the schema registry", 1) as tell:
        return RegistryServer(port=port, data=folder, progress=tell).start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that the broker is stopped in order."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _announce(broker: Broker, schemas: RegistryServer | None, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "data": str(broker.data),
        "log": str(broker.log_file),
        "pid": broker.pid,
    }
    if schemas is not None:
        facts |= {"registry": schemas.url, "registry_pid": schemas.pid}
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        print(f"Kafka is ready at {broker.bootstrap_servers} (records in {broker.data}, log in {broker.log_file}).")
        if schemas is not None:
            print(f"The schema registry is ready at {schemas.url}.")
        print("Ctrl-C stops it.")
    sys.stdout.flush()
