"""What an `App` knows of its admin server: when it lives, what is mounted, the checks of the user's.

The libraries of HTTP are imported only if the setting ``admin`` asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, StateError
from penstock.masking import remember

if TYPE_CHECKING:
    from penstock.admin.server import AdminServer
    from penstock.engine.engine import Engine

#: a check of the user's: true or None is well; false, a text or an exception is not
HealthCheck = Callable[[], Any]
GROUPS = ("live", "ready")


class AdminEndpoints:
    """The admin endpoints of an application, from ``start`` to ``stop``."""

    def __init__(self, app: Any, engine: Callable[[], Engine | None]) -> None:
        self._app = app
        self._engine = engine
        self._mounts: dict[str, Any] = {}
        self._server: AdminServer | None = None
        self._asgi: Any = None
        self.checks: dict[str, dict[str, HealthCheck]] = {group: {} for group in GROUPS}

    @property
    def address(self) -> str | None:
        """Where it listens."""
        return None if self._server is None else self._server.address

    def mount(self, path: str, asgi_app: Any) -> None:
        """Serve an ASGI application below a path, once there is a server."""
        if self._asgi is not None:
            raise StateError("mount before the application starts")
        if not path.startswith("/") or path.rstrip("/") in ("", "/v1", "/health", "/metrics", "/debug", "/page"):
            raise ConfigError(f"mount({path!r}): give a path of your own that begins with /, as '/orders'")
        self._mounts[path.rstrip("/")] = asgi_app

    def health_check(self, group: str, name: str | None) -> Callable[[HealthCheck], HealthCheck]:
        """Return a decorator that adds a check."""
        if group not in GROUPS:
            raise ConfigError(f"health_check(group={group!r}): use one of {', '.join(GROUPS)}")

        def add(check: HealthCheck) -> HealthCheck:
            self.checks[group][name or str(getattr(check, "__name__", check))] = check
            return check

        return add

    def asgi(self) -> Any:
        """Return the ASGI application, made when it is first asked for."""
        if self._asgi is None:
            from penstock.admin.asgi import make_asgi

            remember(self._app.config)
            self._asgi = make_asgi(self._app, self._engine, self._mounts)
        return self._asgi

    def metric_samples(self) -> dict[str, list[dict[str, Any]]]:
        """Return the numbers of ``/metrics``, but those of the server itself."""
        from penstock.admin.measurement import as_data, measure, user_table
        from penstock.admin.served_app import ServedApp

        running = ServedApp(self._app, self._engine)
        return as_data(measure(running), user_table(running))

    def start(self) -> None:
        """Listen, if the setting ``admin`` says where; raise ``ConfigError`` if that cannot be."""
        address = self._app.config["admin"]
        if address is None:
            self._check_unused()
            return
        from penstock.admin.asgi import LoopbackOnly, is_local
        from penstock.admin.point_lookups import PointLookups
        from penstock.admin.server import AdminServer

        asgi, only_local = self.asgi(), is_local(address)
        lookups = PointLookups(asgi, is_local if only_local else None)
        self._server = AdminServer(LoopbackOnly(asgi) if only_local else asgi, address, at_once=lookups.answer)
        self._server.start()

    def stop(self) -> None:
        """End the streams and the server."""
        if self._asgi is not None:
            from penstock.admin.asgi import close_asgi

            close_asgi(self._asgi)
        if self._server is not None:
            self._server.stop()

    def _check_unused(self) -> None:
        """Refuse what would have no effect."""
        if self._asgi is None and (self._mounts or any(self.checks.values())):
            raise ConfigError(
                "mount and health_check need a server: set admin='host:port', or serve app.admin_asgi() yourself"
            )
