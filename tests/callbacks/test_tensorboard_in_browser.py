"""The logs of the demo in a real TensorBoard in a real browser: every panel is shown."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bivshap_lightning.views import START_LINE
from bivshap_lightning.views.figures.canvas import WIDTH
from tests.browser import chromium, tensorboard

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    """The folder of logs of `bivshap demo`, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "bivshap_lightning.cli", "demo", "-o", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder / "logs", run.stdout


def test_the_demo_prints_what_was_found(demo):
    folder, printed = demo
    for explainer in ("ours", "shapley_sampling", "integrated_gradients", "feature_ablation"):
        assert explainer in printed
    assert "Columns that replace each other" in printed
    assert f"bivshap tensorboard {folder}" in printed
    assert len(list(folder.rglob("bivshap/*.json"))) == 2


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_every_dashboard_shows_its_panels(demo, tmp_path):
    folder, _ = demo
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), *START_LINE.split()[3:]]
    with tensorboard(command) as address, chromium() as browser:
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
