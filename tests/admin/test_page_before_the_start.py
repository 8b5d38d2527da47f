"""The page of an application that was never started, in a real browser: what needs neither Kafka nor Spark."""

import pytest
from browsing import browser
from served import TOKEN


@pytest.fixture
def page(serve):
    with browser() as found:
        app, client = serve()
        found.app = app
        found.open(f"{client.base_url.host}:{client.base_url.port}")
        yield found


def test_the_token_is_asked_for_until_it_is_right_and_kept_for_the_tab(page):
    """As the buttons do it; Enter uses what was typed, Cancel gives up."""
    page.sees("#state", "CREATED")
    page.sees("#findings .info", "The application is created")
    page.until(lambda: page.all("#node-KSTREAM-SINK-0000000008"), "no picture")
    page.driver.execute_script(
        "import('./page/api.js').then(api => api.change('v1/pause')).then(done => window.done = JSON.stringify(done))"
    )
    for given in ("wrong", TOKEN):
        page.until(
            lambda: page.one("#ask").is_displayed() and not page.one("#token").get_attribute("value"), "not asked"
        )
        page.type("#token", given, "\n")
    page.until(lambda: page.driver.execute_script("return window.done"), "nothing was done")
    assert page.app.paused
    page.driver.execute_script("import('./page/api.js').then(api => api.change('v1/resume'))")
    page.until(lambda: not page.app.paused, "the token was not kept")
    page.driver.execute_script("sessionStorage.clear(); import('./page/api.js').then(api => api.change('v1/pause'))")
    page.until(lambda: page.one("#ask").is_displayed(), "not asked again")
    page.click("#cancel")
    page.until(lambda: not page.one("#ask").is_displayed(), "not given up")
    assert not page.app.paused
    assert page.complaints() == []


def test_a_page_whose_application_is_gone_says_so(page):
    page.sees("#state", "CREATED")
    page.driver.execute_script("window.fetch = () => Promise.reject(new Error('gone'))")
    page.sees("#state", "NO ANSWER")
