"""The tab in a TensorBoard of this machine, opened in a browser that remembers what went wrong."""

import contextlib
import os
import sys
import urllib.parse
import urllib.request
from pathlib import Path

from tests import browser

ROOT = Path(__file__).parents[3]
READY = """() => document.querySelector("[data-count]")
  || (document.querySelector(".message h2")?.textContent ?? "Reading").startsWith("Reading") === false"""


def tensorboard(*arguments: str) -> contextlib.AbstractContextManager[str]:
    """A TensorBoard with the tab on a free port of this machine, stopped afterwards."""
    command = [sys.executable, "-m", "tests.views.explorer.server", *arguments, "--samples_per_plugin=bivshap=1000"]
    return browser.tensorboard(command, cwd=ROOT, environment={**os.environ, "PYTHONPATH": str(ROOT)})


class Page:
    """A page of the tab that remembers what went wrong and what it asked for."""

    def __init__(self, browser, address: str, **options) -> None:
        self.tab = browser.new_page(viewport={"width": 1500, "height": 1100}, accept_downloads=True, **options)
        self.address, self.errors, self.asked = address, [], []
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))

    def open(self, **state) -> None:
        hash_ = f"#bivshap&explorer={urllib.parse.quote(urllib.parse.urlencode(state))}"
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.address}/data/plugin_entry.html?name=bivshap{hash_}", wait_until="load")
        self.tab.wait_for_function(READY, timeout=30_000)

    def count(self, name: str) -> int:
        found = self.tab.locator(f"[data-count='{name}']")
        return int(found.get_attribute("data-value")) if found.count() else 0

    def check(self) -> None:
        wrong = [error for error in self.errors if "404" not in error]  # browsers ask for an icon
        assert wrong == []
        outside = [u for u in self.asked if not u.startswith((self.address, "data:", "blob:", "about:"))]
        assert outside == []
