"""docs/parity.md is true: generated from the marks, and every row that is done has a test."""

import ast
import textwrap
from collections import Counter

import generated
import parity
import pytest

ROWS = parity.rows()
IDS = [row["id"] for row in ROWS]
PROOFS = parity.proofs()


@pytest.mark.parametrize("name", generated.GENERATED)
def test_generated_documents_are_up_to_date(name):
    path = generated.DOCS / name
    assert path.read_text() == generated.GENERATED[name](), (
        f"run: python tests/house/generated.py (docs/{name} is stale)"
    )


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_every_row_that_is_done_has_a_test_and_every_other_has_a_reason(row):
    assert row["status"] in parity.STATES
    if row["status"] in ("done", "partly"):
        assert PROOFS.get(row["id"]), f"no test is marked with @pytest.mark.capability({row['id']!r})"
    if row["status"] != "done":
        assert row["reason"]


#: the sections of our list of Kafka Streams' capabilities and of what is around it, by the letters that the ids of their rows begin with
LETTERS = {
    "SB", "KS", "KT", "KG", "KGT", "CG", "TW", "SW", "EM", "W", "SU", "CO", "RT", "PA", "ST", "IQ", "LC", "ER", "CF", "TL", "K",
    "AR",
}  # fmt: skip


def test_every_section_of_the_list_of_capabilities_is_counted():
    assert {row.rstrip("0123456789") for row in IDS} == LETTERS


@pytest.mark.parametrize("row", [row for row in ROWS if "tests" in row], ids=lambda row: row["id"])
def test_the_tests_that_a_row_names_exist(row):
    for test in row["tests"]:
        path, name = test.split("::")
        assert f"def {name}(" in (parity.TESTS / path).read_text(), test


def test_ids_are_unique_and_marks_name_only_ids_of_the_list():
    assert [row for row, count in Counter(IDS).items() if count > 1] == []
    assert sorted(set(PROOFS) - set(IDS)) == []


def test_marks_are_found_on_functions_classes_and_files():
    source = textwrap.dedent(
        """
        import pytest
        pytestmark = [pytest.mark.slow, pytest.mark.capability("A")]
        @pytest.mark.capability("B", "C")
        def test_one(): ...
        @pytest.mark.capability("D")
        class TestMany:
            def test_two(self): ...
        def helper(): ...
        """
    )
    found = dict(parity.marked_tests(ast.parse(source)))
    assert found == {"test_one": {"A", "B", "C"}, "TestMany::test_two": {"A", "D"}}
