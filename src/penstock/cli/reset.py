"""``penstock reset``: forget what an application has done."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.kafka import BadOption, BootstrapOption, ClientOption, client_settings
from penstock.cli.output import JsonOption, print_json
from penstock.cli.run import ApplicationOption, StateDirOption
from penstock.clock import SystemClock
from penstock.errors import ConfigError, StateError

if TYPE_CHECKING:
    from penstock.engine.record import EpochRecord
    from penstock.engine.reset_point import ResetPoint
    from penstock.log.base import Log
    from penstock.topology.topology import Topology

#: an application whose last barrier is older than this, and that commits nothing while we look, counts as stopped
OLD_MS = 3_000
LOOK_SECONDS = 1.0


def reset(
    address: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:APP]", help="The program: its App names the application.", show_default=False),
    ] = None,
    application_id: ApplicationOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Though it seems to run: it is fenced and fails.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Only the local state, which the next start restores.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Begin with the first records.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Begin behind the last records.")] = False,
    to_offset: Annotated[int | None, typer.Option(help="Begin at this offset of every partition.")] = None,
    to_datetime: Annotated[str | None, typer.Option(help="Begin at this time: ISO 8601, or milliseconds.")] = None,
    by_duration: Annotated[str | None, typer.Option(help="Begin so long ago: 90s, 15m, 2h, 7d.")] = None,
    state_dir: StateDirOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the offsets, the internal topics and the local state of an application, so that it begins anew.

    Input and output topics stay as they are. Without offsets every source begins where its offset_reset says, at the earliest
    record if it says nothing; so what was written before is written again, after it. Only the state folder of this machine is
    deleted; other machines throw theirs away when they see that it is of an earlier life.

    --to-earliest, --to-latest, --to-offset, --to-datetime and --by-duration say where all sources begin instead.
    """
    from penstock.engine.reset import reset as delete

    given = {
        "application_id": application_id,
        "bootstrap_servers": bootstrap,
        "state_dir": None if state_dir is None else str(state_dir),
    }
    topology, config = target(address, given, client_settings(client))
    to = _point(to_earliest, to_latest, to_offset, to_datetime, by_duration)
    if local:
        _clean(config, to, dry_run=dry_run, as_json=as_json)
        return
    found = delete(topology, config, dry_run=True, to=to)
    if dry_run or not any(found.values()):
        _show(config["application_id"], found, "would be deleted", as_json, dry_run=dry_run)
        return
    if not force:
        check_stopped(config)
    if not yes:
        _show(config["application_id"], found, "will be deleted", as_json=False, err=True)
        typer.confirm("Go on?", abort=True, err=True)
    _show(config["application_id"], delete(topology, config, to=to), "deleted", as_json)


def _point(earliest: bool, latest: bool, offset: int | None, time: str | None, ago: str | None) -> ResetPoint | None:
    """Return where to begin, as the options say it."""
    from penstock.cli.times import moment_ms
    from penstock.engine.reset_point import ResetPoint

    now, points = SystemClock().now_ms(), []
    points += [ResetPoint.earliest()] * earliest + [ResetPoint.latest()] * latest
    points += [] if offset is None else [ResetPoint.offset(offset)]
    points += [] if time is None else [ResetPoint.time(moment_ms(time, "--to-datetime", now))]
    points += [] if ago is None else [ResetPoint.time(moment_ms(ago, "--by-duration", now))]
    if len(points) > 1:
        raise BadOption(
            "say in one way where to begin: one of --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration"
        )
    return points[0] if points else None


def _clean(config: dict[str, Any], to: ResetPoint | None, *, dry_run: bool, as_json: bool) -> None:
    """Delete the local state alone."""
    from penstock.engine.reset import clean_up, state_folder

    if to is not None:
        raise BadOption("--local leaves the offsets as they are: leave it out to begin elsewhere")
    folder = str(state_folder(config))
    found = {"folders": [folder] if clean_up(config, dry_run=dry_run) else []}
    _show(config["application_id"], found, "would be deleted" if dry_run else "deleted", as_json, dry_run=dry_run)


def target(
    address: str | None, given: dict[str, Any], client: dict[str, str]
) -> tuple[Topology | None, dict[str, Any]]:
    """Return the topology, if a program is named, and the settings that say what to reset."""
    from pathlib import Path

    from penstock.cli.locate import is_app, locate, locate_program
    from penstock.config import load

    chosen = {name: value for name, value in given.items() if value is not None}
    topology, config = None, load(chosen, pyproject=Path("pyproject.toml"))
    if address is not None:
        program: Any = locate_program(address)
        topology = program.topology if is_app(program) else locate(address)
        if is_app(program):
            config = load(program.config | chosen, environ={})
    if not config["application_id"]:
        raise ConfigError("whose state is to be deleted? Give --application-id, or the address of an App")
    config["kafka"] = config["kafka"] | client
    return topology, config


def check_stopped(config: dict[str, Any]) -> None:
    """Raise ``StateError`` if the application commits epochs: wait a moment to see."""
    from penstock.engine.record import read_last
    from penstock.log.kafka import KafkaLog

    log = KafkaLog(config["bootstrap_servers"], config["kafka"], timeout=30)
    try:
        before = read_last(log, config["application_id"])
        if before is None:
            return
        young = OLD_MS - (SystemClock().now_ms() - before.committed_at)
        threading.Event().wait(max(LOOK_SECONDS, min(young, OLD_MS) / 1000))
        _compare(log, before)
    finally:
        log.close()


def _compare(log: Log, before: EpochRecord) -> None:
    from penstock.engine.record import read_last

    after = read_last(log, before.application_id)
    if after is not None and after.epoch != before.epoch:
        raise StateError(
            f"{before.application_id!r} runs: it committed epoch {after.epoch} while we looked. Stop it first; or, if it cannot be "
            "reached, --force: it is fenced then, and ends with an error"
        )


def _show(
    application_id: str,
    found: dict[str, list[str]],
    what: str,
    as_json: bool,
    *,
    dry_run: bool = False,
    err: bool = False,
) -> None:
    if as_json:
        print_json({"application_id": application_id, "dry_run": dry_run, **found})
        return
    if not any(found.values()):
        typer.echo(
            f"There is nothing of {application_id!r} here: no group, no internal topics, no local state.", err=err
        )
        return
    for kind, names in found.items():
        for name in names:
            said = "begins at" if kind == "offsets" else f"{what}: {kind.removesuffix('s')}"
            typer.echo(f"{said} {name}", err=err)
