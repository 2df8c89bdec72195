"""The tab in a TensorBoard of this machine, opened in a browser that remembers what went wrong."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
READY = """() => document.querySelector("[data-count]")
  || (document.querySelector(".message h2")?.textContent ?? "Reading").startsWith("Reading") === false"""


@contextlib.contextmanager
def tensorboard(*arguments: str) -> Iterator[str]:
    """A TensorBoard with the tab on a free port of this machine, stopped afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.views.explorer.server", *arguments, "--host", "127.0.0.1",
               "--port", str(port), "--samples_per_plugin=bivshap=1000"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(120):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/data/runs", timeout=5) as answer:
                if json.load(answer):
                    break
            time.sleep(0.5)
        else:
            raise TimeoutError("TensorBoard did not start")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


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
