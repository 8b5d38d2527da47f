"""Download an archive by its Maven coordinate with Ivy, as `jars.py` does, and unpack it into the same cache.

An archive has all that it needs inside, so its POM, which may name a parent that no repository has, is not read.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.dev.cache import cache_root, made_once
from penstock.dev.jars import JarsNotFound, Progress, run_ivy

_SETTINGS = (
    '<ivysettings><settings defaultResolver="public"/>'
    '<resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)


def unpacked(
    coordinate: str, cache_dir: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Path:
    """Return the folder of an archive, ``organisation:name:version:tar.gz:classifier``; downloaded once.

    Raises `JavaNotFound` or `JarsNotFound`, whose messages say what to do.
    """
    return made_once(_folder_of(coordinate, cache_dir), lambda folder: _bring(coordinate, folder, progress or _silent))


def _folder_of(coordinate: str, cache_dir: str | os.PathLike[str] | None) -> Path:
    root = Path(cache_dir) if cache_dir is not None else cache_root() / "archives"
    return root / hashlib.sha256(coordinate.encode()).hexdigest()[:16]


def _bring(coordinate: str, folder: Path, progress: Progress) -> None:
    (folder.parent / "ivy.xml").write_text(ivy_file(coordinate))
    settings = folder.parent / "settings.xml"
    settings.write_text(_SETTINGS)
    run_ivy(folder, progress, str(settings))
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        raise JarsNotFound(f"the archive {coordinate} was not found: check that the coordinate exists")
    for archive in archives:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()


def ivy_file(coordinate: str) -> str:
    """Return an ivy.xml that asks for an archive.

    >>> ivy_file("org:name:1:zip:all").partition("<artifact ")[2].partition("/>")[0]
    'name="name" type="zip" ext="zip" m:classifier="all"'
    """
    organisation, name, revision, kind, classifier = map(quoteattr, coordinate.split(":"))
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="penstock" module="archive"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        f'<dependency org={organisation} name={name} rev={revision} conf="default->*" transitive="false">'
        f"<artifact name={name} type={kind} ext={kind} m:classifier={classifier}/></dependency></dependencies></ivy-module>"
    )


def _silent(line: str) -> None:
    """Report no progress."""
