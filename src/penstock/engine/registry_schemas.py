"""The ids of the schemas that an application writes: asked for once, before an epoch, and sent with the request of every one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.serde.registry.catalog import KnownId
from penstock.serde.registry.serde import RegistrySerde

logger = logging.getLogger("penstock.engine")


class RegistrySchemas:
    """What the lanes need of schema registries."""

    def __init__(self, serdes: Iterable[RegistrySerde]) -> None:
        self._serdes = list(serdes)
        self._waiting = list(self._serdes)
        self._known: list[KnownId] = []

    def resolve(self) -> list[KnownId]:
        """Return the ids of all schemas; those not known yet are asked for. Raises ``RegistryError``."""
        if self._waiting:
            while self._waiting:
                self._waiting[-1].resolve()
                self._waiting.pop()
            catalogs = dict.fromkeys(serde.catalog() for serde in self._serdes)
            self._known = [row for catalog in catalogs for row in catalog.known()]
            logger.info("the ids of %d schemas are known", len(self._known))
        return self._known


#: of an application without a schema registry
NO_SCHEMAS = RegistrySchemas(())
