"""Every name that is exported is there, and says what it is."""

import inspect

import penstock
import penstock.testing


def test_everything_exported_exists_and_says_what_it_is():
    for module in (penstock, penstock.testing):
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), name


def test_every_public_method_is_documented():
    members = [getattr(penstock, name) for name in penstock.__all__]
    public = [(m, name) for m in members if inspect.isclass(m) for name in vars(m) if not name.startswith("_")]
    missing = [
        f"{m.__name__}.{name}"
        for m, name in public
        if callable(getattr(m, name)) and not inspect.getdoc(getattr(m, name))
    ]
    assert missing == []
