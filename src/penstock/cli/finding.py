"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` says what to do, and is empty if nothing is wrong; with ``may`` it can also be left as it is.

    >>> Finding("Java", "none", "install it").state, Finding("jars", "not yet", "fetch them", may=True).state
    ('fix', 'note')
    """

    subject: str
    found: str
    advice: str = ""
    may: bool = False

    @property
    def state(self) -> str:
        """``ok``, ``note`` (something could be done) or ``fix`` (something must be done)."""
        return "ok" if not self.advice else "note" if self.may else "fix"

    @property
    def good(self) -> bool:
        """Whether nothing must be done."""
        return self.state != "fix"

    def data(self) -> dict[str, str]:
        """Return the fields as plain data."""
        return {"subject": self.subject, "state": self.state, "found": self.found, "advice": self.advice}
