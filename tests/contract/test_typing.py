"""The typed example runs; that it is typed is checked where the sources are (``mypy``, see pyproject.toml)."""

import importlib.util
import sys
from pathlib import Path


def test_the_typed_example_runs(monkeypatch):
    spec = importlib.util.spec_from_file_location("typing_example", Path(__file__).with_name("typing_example.py"))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "typing_example", module)  # dataclasses look for their module
    spec.loader.exec_module(module)
    assert isinstance(module.run(), dict)
