"""llms.txt: what the site has, for machines; llms-full.txt: all of it as one text. Each page is there as Markdown, too."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

ABOUT = """\
# Penstock

> Kafka Streams for Python: the same DSL, the same Processor API, the same semantics, run on Apache Spark, exactly once. The
> distribution is `penstock-streams`, the import `penstock`.

- Names are Kafka Streams' in snake_case; Java's overloads are keyword options; durations are `timedelta` or milliseconds.
- Without serdes a topic has string keys and JSON values; a null of Kafka is `None`.
- A program is tested by `penstock.testing.TopologyTestDriver`: no broker, no Spark, no Java.
- A `Processor` object lives for one epoch of a shard: what must last goes into a store.
"""


def write(root: Path, docs: Path, site: Path) -> None:
    """Write both files and the pages as Markdown into the site that was built."""
    named = list(pages(yaml.safe_load((root / "mkdocs.yml").read_text())["nav"]))
    lines, full, section = [ABOUT.rstrip()], [ABOUT], None
    for heading, title, path in named:
        if heading != section:
            section = heading
            lines += ["", f"## {heading}", ""]
        text = (docs / path).read_text()
        lines.append(f"- [{title or first_heading(text)}]({path}){summary(text)}")
        full += ["", f"<!-- {path} -->", "", text]
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(docs / path, site / path)
    (site / "llms.txt").write_text("\n".join([*lines, ""]))
    (site / "llms-full.txt").write_text("\n".join(full))


def pages(nav: list[Any], heading: str = "Penstock") -> Any:
    """Yield (heading of the section, title, path) of each page of the navigation."""
    for item in nav:
        if isinstance(item, str):
            yield heading, "", item
            continue
        ((title, what),) = item.items()
        if isinstance(what, str):
            yield heading, title, what
        else:
            yield from pages(what, title if heading == "Penstock" else heading)


def first_heading(text: str) -> str:
    """Return the title of a page."""
    return next((line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")), "")


def summary(text: str) -> str:
    """Return the first sentence below the title, behind a colon."""
    body = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^(#|<|!\[).*$", "", body, flags=re.MULTILINE).strip()
    first = " ".join(body.split("\n\n")[0].split())
    first = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first).partition(". ")[0].rstrip(".:")
    return f": {first}" if first and not first.startswith(("|", "-", ">")) else ""
