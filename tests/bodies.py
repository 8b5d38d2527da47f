"""The two producers behind one contract: librdkafka's, and the one that speaks Kafka's protocol itself."""

import pytest

from penstock.log import producers

BODIES = ["librdkafka", "wire"]


def use(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one of them made."""
    if body == "wire" and not producers.uses_wire():
        pytest.skip("the loops in C are not built here, or left out")
    if body == "librdkafka":
        monkeypatch.setattr(producers, "uses_wire", lambda: False)


@pytest.fixture(params=BODIES)
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both."""
    use(request.param, monkeypatch)
    body: str = request.param
    return body
