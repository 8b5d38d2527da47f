"""``penstock query``: what the stores of an application hold, asked of the application or read from Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from penstock.cli.exits import FAILED
from penstock.cli.kafka import BadOption, BootstrapOption, ClientOption, SerdeName, connected
from penstock.cli.output import JsonOption, print_json, print_table


def query(
    store: Annotated[str | None, typer.Argument(help="The store; without one the stores are listed.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Ask the application that runs with this admin=.")] = None,
    application_id: Annotated[
        str | None, typer.Option("--application-id", help="Read the stores of this application from Kafka.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The rows of this key.")] = None,
    lower: Annotated[str | None, typer.Option("--from", help="The first key of a range.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="The last key of a range.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="What keys begin with.")] = None,
    since: Annotated[int | None, typer.Option(help="Windows that start, sessions that end then or later: ms.")] = None,
    until: Annotated[int | None, typer.Option(help="Windows or sessions that start then or before: ms.")] = None,
    as_of: Annotated[int | None, typer.Option("--as-of", help="The version that was valid then: ms.")] = None,
    history: Annotated[bool, typer.Option("--history", help="All versions of a key.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key to the first.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="At most so many rows.", min=1)] = None,
    key_serde: Annotated[
        SerdeName | None, typer.Option("--key-serde", help="Form of the keys. Default: the store's.")
    ] = None,
    value_serde: Annotated[
        SerdeName | None, typer.Option("--value-serde", help="Form of the values. Default: the store's.")
    ] = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show rows of a store as of the last committed barrier: key, a tab, value; windows behind the key.

    With --url a running application is asked; with --application-id the store is read from Kafka, whether it runs or not: all of
    it, whatever is asked. Ends with 1 if --key is given and has no row.
    """
    from penstock.cli import query_http, query_kafka

    asked = query_kafka.Asked(key, lower, upper, prefix, since, until, as_of, history, reverse, limit)
    if (url is None) == (application_id is None):
        raise BadOption("say whom to ask: --url of a running application, or --application-id to read from Kafka")
    if url is not None:
        if key_serde is not None or value_serde is not None:
            raise BadOption("--key-serde and --value-serde are for what is read from Kafka: leave them out, or --url")
        found = query_http.stores(url) if store is None else query_http.answer(url, store, asked)
    else:
        assert application_id is not None
        with connected(bootstrap, client, timeout=30) as log:
            if store is None:
                found = query_kafka.stores(log, application_id)
            else:
                found = query_kafka.answer(log, application_id, store, asked, key_serde, value_serde)
    if as_json:
        print_json(found)
    elif store is None:
        _show_stores(found)
    else:
        for row in found["rows"]:
            typer.echo(text_line(row))
    if store is not None and key is not None and not found["rows"]:
        raise typer.Exit(FAILED)


def text_line(row: Mapping[str, Any]) -> str:
    """Write a row as key, tab, value; of a window its times, and of a version its own.

    >>> text_line({"key": "pear", "value": 3}), text_line({"key": "pear", "value": {"n": 1}, "window": {"start": 0, "end": 9}})
    ('pear\\t3', 'pear\\t[0, 9)\\t{"n": 1}')
    """
    parts = [_text(row.get("key"))]
    if row.get("window"):
        parts.append(f"[{row['window']['start']}, {row['window']['end']})")
    if "valid_to" in row:
        parts.append(f"[{row['timestamp']}, {'' if row['valid_to'] is None else row['valid_to']})")
    return "\t".join([*parts, _text(row.get("value"))])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _show_stores(found: Any) -> None:
    names = ("name", "kind", "key", "value")
    rows = found["stores"] if isinstance(found, Mapping) else found
    print_table(("store", "kind", "keys", "values"), [[str(each.get(name) or "-") for name in names] for each in rows])
