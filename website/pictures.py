"""Pictures of topologies, drawn while the site is built from the code on the page, so that none is older than its code.

A page says ``<!-- topology: NAME -->`` below a block of Python that defines ``NAME``, a builder or a topology.
"""

import os
import re
from pathlib import Path

from penstock import StreamsBuilder

ASKED = re.compile(r"^<!-- topology: (\w+) -->$", re.MULTILINE)
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def drawn(text: str, name: Path, target: Path) -> str:
    """Return the page with its pictures, which are written beside the other sources."""

    def picture(found: re.Match[str]) -> str:
        what = found[1]
        where = Path("pictures") / "topologies" / f"{name.stem}-{what}.svg"
        (target / where).parent.mkdir(parents=True, exist_ok=True)
        (target / where).write_text(svg(text[: found.start()], what))
        return f"![The topology of {what}]({os.path.relpath(where, name.parent)})"

    return ASKED.sub(picture, text)


def svg(before: str, what: str) -> str:
    """Return the picture of what the last block that defines it makes."""
    blocks = [code for code in BLOCK.findall(before) if re.search(rf"^(?:>>> )?{what} = ", code, re.MULTILINE)]
    if not blocks:
        raise LookupError(f"no block of Python above defines {what}")
    code = blocks[-1]
    if ">>>" in code:
        shown = [line[4:] for line in code.splitlines() if line.startswith((">>> ", "... "))]
        code = "\n".join(shown)
    defined: dict[str, object] = {}
    exec(compile(code, what, "exec"), defined)
    found = defined[what]
    topology = found.build() if isinstance(found, StreamsBuilder) else found
    return topology.to_svg()  # type: ignore[attr-defined,no-any-return]
