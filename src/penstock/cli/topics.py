"""``penstock topics``: list, create, describe, alter and delete topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.kafka import BootstrapOption, ClientOption, connected, pairs
from penstock.cli.output import JsonOption, print_json, print_table

topics = typer.Typer(
    help="List, create, describe, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None
)

NameArgument = Annotated[str, typer.Argument(help="Name of the topic.", show_default=False)]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic, as cleanup.policy=compact.", show_default=False),
]  # fmt: skip


@topics.command("list")
def list_topics(bootstrap: BootstrapOption = None, client: ClientOption = None, as_json: JsonOption = False) -> None:
    """List the topics with the number of their partitions."""
    with connected(bootstrap, client) as log:
        found = log.admin.topics()
    if as_json:
        print_json([{"topic": name, "partitions": count} for name, count in found.items()])
        return
    print_table(("topic", "partitions"), [(name, str(count)) for name, count in found.items()], numbers=("partitions",))
    if not found:
        print("There are no topics.")


@topics.command()
def create(
    name: NameArgument,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")] = 1,
    replication: Annotated[int, typer.Option(help="Replicas; -1: the default of the cluster.", min=-1)] = -1,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a topic. One that exists is left as it is, and is an error only if it differs."""
    from penstock.log.base import TopicSpec

    with connected(bootstrap, client) as log:
        spec = TopicSpec(name, partitions, pairs(config or (), "--config"), replication)
        created = bool(log.admin.ensure_topics([spec]))
    if as_json:
        print_json({"topic": name, "partitions": partitions, "created": created})
    else:
        print(f"Topic {name} {'was created' if created else 'is there already'}, with {partitions} partition(s).")


@topics.command()
def delete(
    names: Annotated[list[str], typer.Argument(help="Names of the topics.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete topics, with all their records."""
    with connected(bootstrap, client) as log:
        log.admin.partitions(names)
        if not yes:
            typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
        log.admin.delete_topics(names)
    if as_json:
        print_json({"deleted": names})
    else:
        print(f"Deleted: {', '.join(names)}.")


@topics.command()
def describe(
    name: NameArgument, bootstrap: BootstrapOption = None, client: ClientOption = None, as_json: JsonOption = False
) -> None:
    """Show the partitions of a topic with their offsets, and the settings that were made for it."""
    with connected(bootstrap, client) as log:
        places = [(name, number) for number in range(log.admin.partitions([name])[name])]
        begin, end = log.admin.earliest_offsets(places), log.admin.end_offsets(places)
        stable, configs = log.admin.stable_offsets(places), log.admin.configs(name, own=True)
    rows: list[dict[str, Any]] = [
        {"partition": place[1], "begin": begin[place], "stable": stable[place], "end": end[place]} for place in places
    ]
    if as_json:
        print_json({"topic": name, "partitions": rows, "configs": configs})
        return
    titles = ("partition", "begin", "stable end", "end")
    print_table(titles, [tuple(map(str, row.values())) for row in rows], numbers=titles[1:])
    for setting, value in configs.items():
        print(f"{setting}={value}")


@topics.command()
def alter(
    name: NameArgument,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings of a topic."""
    changes = pairs(config or (), "--config")
    with connected(bootstrap, client) as log:
        log.admin.alter_configs(name, changes)
        configs = log.admin.configs(name, own=True)
    if as_json:
        print_json({"topic": name, "configs": configs})
        return
    for setting, value in configs.items():
        print(f"{setting}={value}")
