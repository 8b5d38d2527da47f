"""Debian's chromium as a person uses it. Where it cannot be had, tests are skipped, and say so."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "page"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1400,1000",
)  # fmt: skip
#: seconds that anything on the page may take, on a machine that has much to do
WAIT = 90


class Browser:
    """One tab."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get(f"http://{address}/")
        self.until(lambda: "…" not in self.text("#state"), "the page shows nothing")

    def all(self, css: str) -> list[Any]:
        return self.driver.find_elements("css selector", css)

    def one(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def text(self, css: str) -> str:
        """The text of all that matches; what is drawn anew meanwhile is read again."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText ?? e.textContent).join('\\n')"
        )
        return self.driver.execute_script(script, css)

    def click(self, css: str) -> None:
        self.driver.execute_script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.one(css).click()

    def type(self, css: str, *keys: str) -> None:
        self.one(css).send_keys(*keys)

    def until(self, true: Callable[[], Any], why: str) -> Any:
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, WAIT, 0.2, ignored_exceptions=(WebDriverException,))
        return waiting.until(lambda _: true(), why)

    def sees(self, css: str, *words: str) -> str:
        """Wait until a part of the page has some words."""
        self.until(lambda: all(word in self.text(css) for word in words), f"no {words} in {css}")
        return self.text(css)

    def prefer(self, scheme: str) -> None:
        """Let the system prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.until(lambda: self.theme() == scheme, f"not {scheme}")

    def theme(self) -> str:
        return self.driver.execute_script("return document.documentElement.dataset.theme")

    def overflow(self) -> int:
        """How many pixels the page is wider than its window."""
        return self.driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")

    def complaints(self) -> list[str]:
        """What the console says that is wrong, but requests that were refused, or ended with their application."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"] and "ERR_" not in entry["message"]
        ]  # fmt: skip

    def picture(self, name: str) -> None:
        """Keep a picture in both themes, if they are asked for (PENSTOCK_PICTURES=1)."""
        if not os.environ.get("PENSTOCK_PICTURES"):
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.driver.execute_script("window.scrollTo(0, 0)")
        for scheme in ("dark", "light"):
            self.prefer(scheme)
            time.sleep(1)  # colours change slowly
            self.driver.save_screenshot(str(PICTURES / f"{name}-{scheme}.png"))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start chromium; skip where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        why = "THE PAGE IS NOT TESTED: there is no chromium here (apt-get install chromium chromium-driver)"
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    from selenium import webdriver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield Browser(made)
        finally:
            made.quit()
