"""What a format knows of its schemas, as `RegistrySerde` asks for it. The forms travel to the workers: they are frozen data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Protocol, Union, get_args, get_origin

from penstock.serde.registry.client import SchemaText

#: (bytes, where the body begins) -> value
ReadBody = Callable[[bytes, int], Any]
WriteBody = Callable[[Any], bytes]
#: (all bytes, where each body begins, where it ends) -> values
ReadColumn = Callable[[BytesIO, list[int], list[int]], list[Any]]
#: values -> all bytes, and where each begins and the last ends; None: they are written one by one
WriteColumn = Callable[[list[Any]], tuple[bytes, list[int]] | None]


class SchemaBranch(NamedTuple):
    """One schema that values are written with."""

    #: the full name of its record or message; "" if it has none
    name: str
    schema: SchemaText
    #: the class of its values; None: any
    value_type: Any = None
    #: what stands between the id and the body
    suffix: bytes = b""


class SchemaForm(Protocol):
    """A format with the types or schemas of one serde."""

    kind: ClassVar[str]

    @property
    def is_union(self) -> bool:
        """Whether values are of several types."""

    @property
    def name(self) -> str:
        """The serde's name, as it is shown."""

    def branches(self, *, split: bool) -> tuple[SchemaBranch, ...]:
        """Return the schemas that values are written with. ``split``: each type of a union has its own."""

    def writer(self, branch: SchemaBranch, latest: SchemaText | None) -> WriteBody:
        """Return what writes values of a branch; ``latest``: with this schema instead."""

    def reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadBody:
        """Return what reads values that were written with a schema; raise if they cannot be read."""

    def column_reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadColumn:
        """Return what reads columns of such values. Only Avro is asked."""

    def column_writer(self, branch: SchemaBranch, frame: bytes) -> WriteColumn | None:
        """Return what writes columns. Only Avro is asked."""


@dataclass(frozen=True, slots=True)
class TypedForm:
    """What forms share whose values are of a type, of a schema, or both. ``known``: the schemas that it refers to, by name."""

    kind: ClassVar[str]

    #: None: that of the type
    text: str | None
    value_type: Any = None
    known: tuple[tuple[str, str], ...] = ()

    @property
    def is_union(self) -> bool:
        """Whether values are of several types."""
        return self.value_type is not None and len(types_of(self.value_type)) > 1

    def branches(self, *, split: bool) -> tuple[SchemaBranch, ...]:
        """Return the schemas that values are written with."""
        if not (split and self.is_union):
            text = self.text if self.text is not None else self._text_of(self.value_type)
            return (SchemaBranch(self._name_in(text), SchemaText(self.kind, text, self.known), self.value_type),)
        texts = {one: self._text_of(one) for one in types_of(self.value_type)}
        return tuple(SchemaBranch(self._name_in(text), SchemaText(self.kind, text), one) for one, text in texts.items())

    def _text_of(self, type_: Any) -> str:
        """Return the schema of a type."""
        raise NotImplementedError

    def _name_in(self, text: str) -> str:
        """Return what a schema is called; "" if it has no name."""
        raise NotImplementedError


def types_of(value_type: Any) -> tuple[Any, ...]:
    """Return the types of a union, but not None, which no serde is asked to write; any other type itself.

    >>> types_of(int | str), types_of(int)
    ((<class 'int'>, <class 'str'>), (<class 'int'>,))
    """
    if get_origin(value_type) not in (Union, UnionType):
        return (value_type,)
    return tuple(one for one in get_args(value_type) if one is not NoneType)


def branch_named(name: str, branches: tuple[SchemaBranch, ...]) -> SchemaBranch | None:
    """Return the branch with a name: with its namespace, or, if that does not tell, without."""
    if len(branches) == 1:
        return branches[0]
    full = [branch for branch in branches if branch.name == name]
    short = [branch for branch in branches if branch.name.rpartition(".")[2] == name.rpartition(".")[2]]
    return next(iter(full or short), None)
