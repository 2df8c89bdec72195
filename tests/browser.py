"""Chromium, and servers on this machine for it to visit, for tests."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright, closed afterwards."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def tensorboard(
    command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of a TensorBoard that lists a run, on a free port of this machine; stopped afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
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
