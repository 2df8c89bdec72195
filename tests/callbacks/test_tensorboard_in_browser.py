"""The demo's logs in a real TensorBoard in a real browser: no panel may be missing."""

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

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
               "--port", str(port), "--samples_per_plugin", "images=1000,bivshap=1000"]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(120):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/data/runs", timeout=5) as answer:
                if len(answer.read()) > 5:
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
    for explainer in ("ours", "kernel_shap", "shapley_sampling", "integrated_gradients", "feature_ablation"):
        assert explainer in printed
    assert "the 8 most important pixels" in printed
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
            for explainer in ("ours", "kernel_shap", "feature_ablation"):
                card = page.locator("scalar-card", has_text=f"bivshap/post_hoc_accuracy/{explainer}").first
                card.locator("line-chart").first.wait_for(timeout=60_000)
            page.screenshot(path=tmp_path / "scalars.png")
            for dashboard, tag in {"images": "bivshap/class/0/graphs", "graphs": "bivshap/H/class/0"}.items():
                page.goto(f"{address}/#{dashboard}", wait_until="load")
                page.reload(wait_until="load")
                # The tag of a graph stands in a drop-down list, closed.
                page.get_by_text(tag).first.wait_for(timeout=60_000, state="attached")
                drawn = "img" if dashboard == "images" else "g.node"
                page.locator(drawn).first.wait_for(timeout=60_000, state="attached")
                page.screenshot(path=tmp_path / f"{dashboard}.png")
        finally:
            browser.close()
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("scalars", "images", "graphs"))
