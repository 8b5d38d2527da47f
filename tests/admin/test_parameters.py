"""Parameters of a request: what is taken, and what is refused with the limits."""

from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from penstock.admin import parameters
from penstock.admin.answers import HttpError


def asked(**given: str) -> Request:
    return Request({"type": "http", "query_string": urlencode(given).encode(), "headers": []})


@pytest.mark.parametrize(("text", "found"), [("1", 1), ("10", 10), ("", 7), (None, 7)])
def test_a_number_within_its_limits_or_the_default(text, found):
    request = asked() if text is None else asked(limit=text)
    assert parameters.number(request, "limit", least=1, most=10, default=7) == found


@pytest.mark.parametrize("text", ["0", "11", "-1", "ten", "1.5", "1" * 30])
def test_a_number_beyond_its_limits_is_refused_with_the_name(text):
    with pytest.raises(HttpError, match="limit=") as raised:
        parameters.number(asked(limit=text), "limit", least=1, most=10, default=7)
    assert raised.value.status == 400


def test_a_flag_has_two_words_for_each_answer():
    found = {text: parameters.flag(asked(rows=text), "rows") for text in ("0", "1", "false", "true")}
    assert found == {"0": False, "1": True, "false": False, "true": True}
    assert not parameters.flag(asked(), "rows")
    with pytest.raises(HttpError, match="rows='yes'"):
        parameters.flag(asked(rows="yes"), "rows")


def test_a_position_is_by_topic_and_partition():
    assert parameters.position(asked(position='{"in": {"0": 41, "3": 0}}')) == {("in", 0): 41, ("in", 3): 0}
    assert parameters.position(asked()) is parameters.position(asked(position="")) is None
    for wrong in ("here", "[1]", '{"in": 5}', '{"in": {"x": 1}}', '{"in": {"0": "1"}}', '{"in": {"0": true}}'):
        with pytest.raises(HttpError, match="is no position"):
            parameters.position(asked(position=wrong))
