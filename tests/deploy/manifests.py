"""The files of ``deploy/`` as data."""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def objects(name: str) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def every_object() -> list[dict[str, Any]]:
    return [each for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for each in objects(path.name)]


def stateful_set() -> dict[str, Any]:
    (found,) = (each for each in objects("application.yaml") if each["kind"] == "StatefulSet")
    return found


def container() -> dict[str, Any]:
    """The one container of the pod."""
    (found,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    return found


def instructions() -> list[tuple[str, str]]:
    """The instructions of the last stage of the Containerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    last = max(at for at, (word, _) in enumerate(split) if word == "FROM")
    return [(word, " ".join(rest.split())) for word, rest in split[last:]]


def instruction(word: str) -> str:
    (found,) = (rest for each, rest in instructions() if each == word)
    return found


def command() -> list[str]:
    return json.loads(instruction("ENTRYPOINT")) + json.loads(instruction("CMD"))


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in instruction("ENV").split())


def unit() -> ConfigParser:
    """The systemd unit; a setting that is given twice would be an error."""
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "systemd" / "penstock@.service")
    return parser


def instructions_of(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]
