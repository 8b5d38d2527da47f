"""``penstock dead-letters``: list, show and redrive dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from penstock.cli.bars import counting
from penstock.cli.dead_letter_forms import json_line, print_kinds, print_letter, print_letters
from penstock.cli.exits import FAILED
from penstock.cli.kafka import BadOption, BootstrapOption, ClientOption, connected
from penstock.cli.output import JsonOption, print_json
from penstock.cli.times import moment_ms
from penstock.clock import SystemClock

if TYPE_CHECKING:
    from penstock.dead_letters.filters import LetterFilter
    from penstock.dead_letters.planning import RedrivePlan

dead_letters = typer.Typer(
    help="List and show dead letters, and redrive them into their source topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
#: how many letters are shown to people, unless told
SHOWN = 50

LettersOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--dead-letter-topic", "-d", help="Default: the setting dead_letter_topic.", show_default=False),
]
NodeOption: TypeAlias = Annotated[
    str | None, typer.Option("--node", help="Only what failed at this node.", show_default=False)
]
ExceptionOption: TypeAlias = Annotated[
    str | None, typer.Option("--exception", help="Only this exception: its name, whole or the last part.", show_default=False)
]  # fmt: skip
TopicOption: TypeAlias = Annotated[
    str | None, typer.Option("--topic", help="Only records of this source topic.", show_default=False)
]
SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Only records of this time or later: 2h (ago), 2026-01-31T10:00 (UTC) or ms.",
        show_default=False,
    ),
]


@dead_letters.command("list")
def list_letters(
    node: NodeOption = None,
    exception: ExceptionOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, help="The newest so many. Default: 50; with --json all.", show_default=False
        ),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only count them by node and exception.")] = False,
    letters_topic: LettersOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each letter, or kind.")] = False,
) -> None:
    """List the dead letters of a topic, and count them by node and exception. Time is that of the record."""
    from penstock.dead_letters.forms import Newest, line_form
    from penstock.dead_letters.marks import read_marks
    from penstock.dead_letters.reading import read_letters, topic_ends

    chosen = _filter(node, exception, topic, since)
    name = _letters_topic(letters_topic)
    newest = Newest(limit if limit or as_json else SHOWN)
    stream = as_json and not summary and limit is None
    with connected(bootstrap, client, timeout=30) as log:
        marks = read_marks(log, name)
        for letter in read_letters(log, topic_ends(log, name)):
            if not chosen.matches(letter):
                continue
            form = line_form(letter, marks.time(letter))
            newest.add(form, keep=not stream and not summary)
            if stream:
                typer.echo(json_line(form))
    if as_json and not stream:
        for row in newest.kinds() if summary else newest.forms():
            typer.echo(json_line(row))
    if not as_json:
        if not summary:
            print_letters(newest)
        print_kinds(newest, name)


@dead_letters.command()
def show(
    position: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Which letter, as list prints it.", show_default=False)],
    letters_topic: LettersOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Show everything about one dead letter: where it came from, the stack trace, headers, key and value."""
    from penstock.dead_letters.forms import full_form
    from penstock.dead_letters.marks import read_marks
    from penstock.dead_letters.reading import read_some

    at, name = parse_position(position), _letters_topic(letters_topic)
    with connected(bootstrap, client, timeout=30) as log:
        (letter,) = read_some(log, name, [at])
        form = full_form(letter, read_marks(log, name).time(letter))
    if as_json:
        print_json(form)
    else:
        print_letter(form)


@dead_letters.command()
def redrive(
    positions: Annotated[
        list[str] | None,
        typer.Argument(metavar="PARTITION:OFFSET", help="Which letters.", show_default=False),
    ] = None,
    node: NodeOption = None,
    exception: ExceptionOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    every: Annotated[bool, typer.Option("--all", help="All letters of the topic.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be redriven.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    letters_topic: LettersOption = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of dead letters into their source topics again: as they were, into the same partitions.

    Every letter is redriven once, also if this is stopped in the middle and called again; letters of the same record go together. The
    record has three headers more: __penstock.redrive.letter, .time and .count. What fails again is a new letter. Ends with 1
    if letters cannot be redriven (their source topic is gone): the others are.
    """
    from penstock.dead_letters.forms import result_form
    from penstock.dead_letters.planning import plan_redrive
    from penstock.dead_letters.redrive import RedriveResult
    from penstock.dead_letters.redrive import redrive as write_again

    chosen = _filter(node, exception, topic, since, positions)
    if chosen.says_nothing is not every:
        raise BadOption(
            "say which letters: PARTITION:OFFSET, --node, --exception, --topic, --since, or --all"
            if not every
            else "--all takes every letter: leave it out, or the positions and filters"
        )
    name = _letters_topic(letters_topic)
    with connected(bootstrap, client, timeout=60) as log:
        plan = plan_redrive(log, name, chosen)
        result = RedriveResult(len(plan.records), plan.letters, plan.already, tuple(plan.refused))
        if plan.records and not dry_run:
            _ask(plan, yes)
            with counting("Redriving", len(plan.records), numbers=True) as told:
                result = write_again(log, name, chosen, ends=plan.ends, progress=lambda written, of: told(written))
    form = result_form(name, result, dry_run=dry_run)
    if as_json:
        print_json(form)
    else:
        _show(form)
    if result.refused:
        raise typer.Exit(FAILED)


def parse_position(text: str) -> tuple[int, int]:
    """Read the position of a letter.

    >>> parse_position("3:17")
    (3, 17)
    """
    partition, colon, offset = text.partition(":")
    if not (colon and partition.isdecimal() and offset.isdecimal()):
        raise BadOption(f"{text!r} is no position of a letter: write PARTITION:OFFSET, as 0:17 (see dead-letters list)")
    return int(partition), int(offset)


def _filter(
    node: str | None, exception: str | None, topic: str | None, since: str | None, positions: list[str] | None = None
) -> LetterFilter:
    from penstock.dead_letters.filters import LetterFilter

    time = None if since is None else moment_ms(since, "--since", SystemClock().now_ms())
    places = frozenset(map(parse_position, positions)) if positions else None
    return LetterFilter(node, exception, topic, time, places)


def _letters_topic(given: str | None) -> str:
    """Return the dead-letter topic that is named, or that the settings of this folder and environment name."""
    from pathlib import Path

    from penstock.config import load

    found = given or load({}, pyproject=Path("pyproject.toml"))["dead_letter_topic"]
    if found is None:
        raise BadOption(
            "which topic? Give --dead-letter-topic, or set dead_letter_topic below [tool.penstock] in pyproject.toml"
        )
    return str(found)


def _ask(plan: RedrivePlan, yes: bool) -> None:
    if yes:
        return
    typer.echo(f"{len(plan.records):,} record(s) of {plan.letters:,} letter(s) will be written again.", err=True)
    if plan.refused:
        typer.echo(f"{len(plan.refused):,} letter(s) cannot be redriven: {plan.refused[0].why}", err=True)
    typer.confirm("Go on?", abort=True, err=True)


def _show(form: dict[str, object]) -> None:
    """Explain what was done, or would be; on standard error what could not be."""
    refused = form["refused"]
    assert isinstance(refused, list)
    what = "would be written again" if form["dry_run"] else "written again"
    typer.echo(
        f"{form['records']:,} record(s) {what}, for {form['letters']:,} letter(s) of {form['dead_letter_topic']}."
    )
    if form["already"]:
        typer.echo(f"{form['already']:,} letter(s) were redriven before, and are left.")
    for each in refused:
        typer.echo(f"penstock: {each['letter']} cannot be redriven: {each['why']}", err=True)
