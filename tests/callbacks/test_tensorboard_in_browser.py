"""The logs of the demo in a real TensorBoard in a real browser: every panel is shown."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bivshap_lightning.views import START_LINE
from bivshap_lightning.views.figures.canvas import WIDTH

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    """The folder of logs of `bivshap demo`, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "bivshap_lightning.cli", "demo", "-o", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder / "logs", run.stdout


@contextlib.contextmanager
def tensorboard(folder: Path) -> Iterator[str]:
    """A TensorBoard on a free port of this machine, stopped afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1",
               "--port", str(port), *START_LINE.split()[3:]]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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


def test_the_demo_prints_what_was_found(demo):
    folder, printed = demo
    for explainer in ("ours", "shapley_sampling", "integrated_gradients", "feature_ablation"):
        assert explainer in printed
    assert "Columns that replace each other" in printed
    assert f"bivshap tensorboard {folder}" in printed
    assert len(list(folder.rglob("bivshap/*.json"))) == 2


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_every_dashboard_shows_its_panels(demo, tmp_path):
    from playwright.sync_api import sync_playwright

    folder, _ = demo
    with tensorboard(folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1500, "height": 1100})
            page.goto(f"{address}/#timeseries", wait_until="load")
            page.get_by_role("combobox", name="Filter tags (regex)").fill("post_hoc_accuracy")
            page.keyboard.press("Escape")
            for explainer in ("ours", "feature_ablation"):
                card = page.locator("scalar-card", has_text=f"bivshap/post_hoc_accuracy/{explainer}").first
                card.locator("line-chart").first.wait_for(timeout=60_000)
            page.screenshot(path=tmp_path / "scalars.png")
            page.goto(f"{address}/#images", wait_until="load")
            page.reload(wait_until="load")
            for panel in ("axis", "graphs"):
                page.get_by_text(f"bivshap/sample/0/{panel}").first.wait_for(timeout=60_000, state="attached")
            picture = page.locator("img").first
            picture.wait_for(timeout=60_000, state="attached")
            # Decoded by the browser, at the width it was drawn in.
            assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == WIDTH
            page.screenshot(path=tmp_path / "images.png")
        finally:
            browser.close()
