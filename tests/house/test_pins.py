"""What is pinned can be installed with every Python that is supported, from its first release on."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def test_pins_take_the_first_release_of_the_oldest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (oldest,) = re.findall(r"^>=(\d+\.\d+)$", project["requires-python"])
    found = {}
    for name in re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE):
        try:
            found[name] = metadata(name)["Requires-Python"] or ""
        except PackageNotFoundError:  # of an extra that is not installed here
            continue
    assert len(found) > 50
    assert [name for name, wanted in found.items() if f"{oldest}.0" not in SpecifierSet(wanted)] == []
