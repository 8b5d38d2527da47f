"""What a program of one file defines comes whole to the workers, which cannot import it."""

import pickle
import subprocess
import sys

import msgspec
import pytest

#: a program, which says what it has, and writes it for others; run as ``__main__``
PROGRAM = """
{future}
import enum
import sys
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Optional, TypedDict

import msgspec

from penstock import Serdes
from penstock.engine.executor.program import dump


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Line:
    item: str
    colour: Colour = Colour.RED


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)
    before: "Optional[Order]" = None

    def twice(self):
        return Order(self.number * 2)


class Base(msgspec.Struct, kw_only=True, tag=True):
    number: int


class Account(Base, rename="camel", frozen=True, tag="account"):
    long_name: int
    note: Optional[str] = None
    lines: list[Line] = []
    KIND: ClassVar[str] = "kind"

    def next(self):
        return Account(number=self.number + 1, long_name=self.long_name, lines=self.lines)

    @property
    def both(self):
        return self.number, self.long_name, self.KIND


class Positive(msgspec.Struct):
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("negative")


class Point(NamedTuple):
    x: int
    y: Optional[str] = None


class Row(TypedDict, total=False):
    x: int


DATA = {{
    Order: b'{{"number":1,"lines":[{{"item":"tea","colour":"red"}}],"before":{{"number":2}}}}',
    Account: b'{{"type":"account","number":1,"longName":5,"lines":[{{"item":"tea"}}]}}',
    Positive: b'{{"number":1}}',
    Point: b'[1,"z"]',
    Row: b'{{"x":1}}',
}}
if __name__ == "__main__":
    serdes = [(Serdes.json_of(type_), data) for type_, data in DATA.items()]
    functions = [lambda order: order.twice(), lambda account: account.next().both]
    with open(sys.argv[1], "wb") as file:
        file.write(dump((serdes, functions)))
    said = [repr(serde.deserialize(data)) for serde, data in serdes]
    print([*said, functions[0](Order(4)), functions[1](Account(number=1, long_name=5))])
"""
WORKER = """
import pickle
import sys
from penstock.protocol.main_module import load

with open(sys.argv[1], "rb") as file:
    sent = file.read()
(serdes, functions), (again, _) = load(sent), load(sent)
values = [serde.deserialize(data) for serde, data in serdes]
assert values == [serde.deserialize(data) for serde, data in again]  # what comes twice is of the same classes
assert values == [serde.deserialize(serde.serialize(value)) for (serde, _), value in zip(serdes, values)]
assert values == pickle.loads(pickle.dumps(values))  # a class is found by its name, as in the program
try:
    serdes[2][0].deserialize(b'{"number":-1}')
except Exception as error:
    assert str(error) == "negative", error
else:
    raise AssertionError("nobody has checked it")
print([*map(repr, values), functions[0](type(values[0])(4)), functions[1](type(values[1])(number=1, long_name=5))])
"""


@pytest.mark.parametrize("future", ["", "from __future__ import annotations"], ids=["types", "names of types"])
def test_classes_of_the_main_module_are_the_same_in_a_worker(tmp_path, future):
    program, worker = tmp_path / "program.py", tmp_path / "worker.py"
    program.write_text(PROGRAM.format(future=future))
    worker.write_text(WORKER)
    told, found = (
        subprocess.run([sys.executable, path, tmp_path / "sent"], capture_output=True, text=True)
        for path in (program, worker)
    )
    assert (told.returncode, found.returncode) == (0, 0), told.stderr + found.stderr
    assert found.stdout == told.stdout
    assert (
        "Account(long_name=5, note=None, lines=[Line(item='tea', colour=<Colour.RED: 'red'>)], number=1)"
        in found.stdout
    )


def test_what_can_be_imported_goes_by_its_name():
    from penstock.engine.executor.program import dump
    from penstock.protocol.main_module import load

    assert load(dump(pickle.Pickler)) is pickle.Pickler
    assert b"PROGRAM" not in dump(test_what_can_be_imported_goes_by_its_name)


def test_what_comes_back_to_the_program_is_its_own_class():
    from penstock.engine.executor.program import dump
    from penstock.protocol.main_module import load

    class Local(msgspec.Struct):
        number: int

    assert load(dump(Local)) is Local
