"""The examples in the docstrings of the benchmarks run."""

import doctest
import importlib
import pkgutil

import pytest

import bench

#: programs that are made for another environment
ELSEWHERE = ("bench.peers.quix",)
MODULES = [
    module.name
    for module in pkgutil.walk_packages(bench.__path__, "bench.")
    if not module.ispkg and not module.name.endswith("__main__") and module.name not in ELSEWHERE
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
