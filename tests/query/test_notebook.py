"""A notebook that is executed, in a kernel of Jupyter: what it shows, and what changes in place."""

import nbformat
import pytest
from nbclient import NotebookClient

from penstock.errors import PenstockError
from penstock.notebook import live

CELLS = [
    """
from penstock import App, RangeQuery, Serdes, StreamsBuilder
from penstock.notebook import live
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
builder.stream("words", value=Serdes.string).group_by_key(value=Serdes.string).count(store="counts")
driver = TopologyTestDriver(builder)
words = driver.input_topic("words", value=Serdes.string)
words.pipe("apple", "x", 1)
""",
    "builder.build()",
    "App(builder, application_id='words')",
    "driver.store('counts')",
    "driver.query('counts', RangeQuery())",
    "driver.store('counts').to_pandas()",
    "view = live(driver.store('counts'), every=None)",
    "words.pipe_all([('apple', 'x'), ('pear', 'x')], start=2)\nview.refresh();",
]


@pytest.fixture(scope="module")
def shown():
    """Execute the cells; return what each shows as HTML."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return ["".join(output["data"].get("text/html", "") for output in cell["outputs"]) for cell in notebook.cells]


def test_a_topology_and_an_application_are_pictures(shown):
    assert "<svg" in shown[1]
    assert "<svg" in shown[2]
    assert "CREATED" in shown[2]


def test_stores_and_results_are_tables(shown):
    assert "<td>apple</td><td>1</td>" in shown[3]
    assert "<td>apple</td><td>1</td>" in shown[4]
    assert "<td>apple</td>" in shown[5]


def test_a_live_view_changes_in_the_cell_that_it_was_made_in(shown):
    assert "<td>apple</td><td>2</td>" in shown[6]
    assert "<td>pear</td><td>1</td>" in shown[6]
    assert shown[7] == ""


def test_outside_of_a_notebook_a_live_view_says_where_it_belongs():
    class Anything:
        def _repr_html_(self):
            return ""

    with pytest.raises(PenstockError, match="run it in Jupyter"):
        live(Anything())
