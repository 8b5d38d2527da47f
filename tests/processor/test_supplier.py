"""Suppliers are checked while the program is built, with a message that says what to write."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.operators.process import Process, ProcessValues
from penstock.operators.table import TableTransformValues
from penstock.processor import Processor


class Forward(Processor[Any, Any]):
    """Forwards what it gets."""

    def __init__(self, label: str = "") -> None:
        self.label = label

    def process(self, record: Any) -> None:
        self.context.forward(record)


class Duck:
    """Has process and nothing else."""

    def process(self, record: Any) -> None:
        """Do nothing."""


class Length:
    """Has transform and nothing else."""

    def transform(self, key: Any, value: Any) -> Any:
        return value


ONE = Duck()


def make_forward() -> Forward:
    return Forward("made")


def handle(record: Any) -> None:
    """Look like a processor, but be a function of a record."""


@pytest.mark.parametrize("spec", [Process, ProcessValues])
@pytest.mark.parametrize(
    "supplier", [Forward, Duck, make_forward, lambda: Forward("x"), functools.partial(Forward, "y")]
)
def test_classes_functions_and_partials_are_suppliers(spec: Any, supplier: Any) -> None:
    assert spec(supplier).supplier is supplier


def test_a_supplier_must_make_a_new_instance_each_time() -> None:
    with pytest.raises(TopologyError, match="must return a new instance"):
        Process(lambda: ONE)


def test_an_instance_is_not_a_supplier() -> None:
    with pytest.raises(TopologyError, match="give the class, not an instance"):
        Process(Forward())  # type: ignore[arg-type]


def test_a_function_of_a_record_is_not_a_supplier() -> None:
    with pytest.raises(TopologyError, match=r"a Processor class.*handle.*needs arguments"):
        Process(handle)  # type: ignore[arg-type]


def test_what_a_supplier_makes_must_have_a_process_method() -> None:
    with pytest.raises(TopologyError, match="which has no process method"):
        Process(dict)
    with pytest.raises(TopologyError, match="which has no process method"):
        Process(Length)


def test_a_transformer_must_have_a_transform_method() -> None:
    assert TableTransformValues(Length).supplier is Length
    with pytest.raises(TopologyError, match="which has no transform method"):
        TableTransformValues(Duck)


def test_an_abstract_processor_is_refused_by_python_itself() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Process(Processor)  # type: ignore[type-abstract]


def test_unpickling_does_not_make_processors() -> None:
    made: list[int] = []
    counting_supplier.made = made  # type: ignore[attr-defined]
    spec = Process(counting_supplier)
    before = len(made)
    pickle.loads(pickle.dumps(spec))
    assert len(made) == before


def counting_supplier() -> Duck:
    counting_supplier.made.append(1)  # type: ignore[attr-defined]
    return Duck()
