"""What is for any version of Spark uses nothing of PySpark that is private."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.engine.executor import choice
from penstock.engine.executor.choice import IN_PROCESS, TESTED, chosen, make_jobs
from penstock.errors import ConfigError

ROOM = Path(choice.__file__).parent


def private_names(path: Path) -> set[str]:
    """Return the private names that a file asks other objects for, or imports from PySpark."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            found.add(node.attr)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize(
    "name", ["spark.py", "spark_public.py", "choice.py", "in_process_jobs.py", "resident.py", "inline_epochs.py"]
)
def test_the_public_body_uses_no_private_name(name):
    assert private_names(ROOM / name) == set()


@pytest.mark.skipif(not (ROOM / "spark_fast.py").exists(), reason="spark_fast was removed")
def test_the_fast_body_does_which_is_why_it_has_a_table_of_versions():
    assert "_jvm" in private_names(ROOM / "spark_fast.py")
    assert {chosen("auto", version) for version in TESTED} == {"spark_fast"}
    assert chosen("auto", "4.2.1-SNAPSHOT") == "spark"
    assert chosen("spark", "4.2.0") == "spark"


def test_without_its_file_the_fast_body_is_not_chosen(monkeypatch):
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert chosen("auto", TESTED[0]) == "spark"


def test_lanes_in_this_process_are_refused_on_a_cluster():
    cluster = SimpleNamespace(version="4.2.0", master="spark://host:7077")
    with pytest.raises(ConfigError, match=r"in_process.*spark://host:7077"):
        make_jobs(IN_PROCESS, cluster, None, 2, "app")
