"""Penstock in a notebook: an application as it is shown, and views that change in place.

    from penstock.notebook import live

    app.start()
    live(app)                    # state, epoch, lag and rates, once a second
    live(app.store("counts"))    # the first rows, as of the last barrier

``docs/notebook.md`` has more.
"""

from __future__ import annotations

import threading
from html import escape
from typing import Any, Protocol

from penstock.errors import MissingExtra, PenstockError

__all__ = ["LiveView", "app_html", "live"]


class Shown(Protocol):
    """What a notebook can show."""

    def _repr_html_(self) -> str: ...


def app_html(app: Any) -> str:
    """Show an application: what it does, how far it is, and its topology."""
    told = app.metrics()
    rows = {
        "state": f"{told['state']}{' (paused)' if told['paused'] else ''}",
        "epoch": told.get("epoch"),
        "records in": told.get("records_in"),
        "records out": sum(told.get("records_out", {}).values()),
        "dropped": told.get("dropped_records"),
        "lag": told.get("lag"),
        "error": app.error,
        "page": f"http://{app.admin_address}" if app.admin_address else None,
    }
    cells = "".join(
        f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items() if value is not None
    )
    title = f"<strong>{escape(app.application_id)}</strong>"
    return f"<div>{title}<table>{cells}</table>{app.topology._repr_html_()}</div>"


class LiveView:
    """An output of a notebook that changes in place, until ``stop()`` or the end of the application."""

    def __init__(self, shown: Shown, handle: Any) -> None:
        self._shown = shown
        self._handle = handle
        self._stopped = threading.Event()

    def refresh(self) -> bool:
        """Show what there is now; return whether there is anything to show later."""
        html, goes_on = _html(self._shown)
        self._handle.update({"text/html": html}, raw=True)
        return goes_on

    def follow(self, every: float) -> None:
        """Refresh every so many seconds, in a thread of its own."""
        threading.Thread(target=self._follow, args=(every,), name="penstock-notebook", daemon=True).start()

    def stop(self) -> None:
        """Leave the output as it is."""
        self._stopped.set()

    def _follow(self, every: float) -> None:
        while not self._stopped.wait(every) and self.refresh():
            pass


def live(shown: Shown, every: float | None = 1.0) -> LiveView:
    """Show an App, or a store of one, and go on showing it; ``every``: seconds, None: only at ``refresh()``.

    A store of the test driver belongs to the thread that pipes records: give it ``every=None``.
    """
    try:
        from IPython.display import display
    except ImportError:
        raise MissingExtra(
            "live() needs IPython, which is not installed: pip install 'penstock-streams[notebook]'"
        ) from None
    show: Any = display
    handle = show({"text/html": _html(shown)[0]}, raw=True, display_id=True)
    if handle is None:
        raise PenstockError("live() shows in a notebook: run it in Jupyter, or print what you want to see")
    view = LiveView(shown, handle)
    if every is not None:
        view.follow(every)
    return view


def _html(shown: Shown) -> tuple[str, bool]:
    """Return what is shown, and whether it will change; what cannot be read says why."""
    try:
        return shown._repr_html_(), str(getattr(shown, "state", "")) not in ("NOT_RUNNING", "ERROR")
    except PenstockError as error:
        return f"<div>{escape(str(error))}</div>", False
