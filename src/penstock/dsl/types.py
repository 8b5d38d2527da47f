"""Type variables of the DSL. ``K`` and ``V`` of a source have defaults: without a serde, keys are text and values any JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

K2 = TypeVar("K2")
V2 = TypeVar("V2")
#: what a joiner or an aggregator returns
R = TypeVar("R")

if TYPE_CHECKING:  # defaults of type variables come with Python 3.13; checkers know them already
    import typing_extensions

    SourceK = typing_extensions.TypeVar("SourceK", default=str)
    SourceV = typing_extensions.TypeVar("SourceV", default=Any)
else:
    SourceK = TypeVar("SourceK")
    SourceV = TypeVar("SourceV")
