"""Makes the pictures of docs/tensorboard.md from `bivshap demo`: `python -m tests.views.explorer.pictures`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser import chromium
from tests.views.explorer.browsing import ROOT, Page, tensorboard

WIDTH, HEIGHT = 1400, 940
PICTURES = {
    "tab_axis": {"view": "axis", "beside": "graph"},
    "tab_graph": {"view": "graph", "beside": "", "selected": "proline"},
    "tab_time": {"view": "time", "beside": "axis"},
}
"""What each picture shows, as in the address."""


def make_pictures(folder: Path) -> None:
    """Writes the pictures, with few colours, as they are drawn with few.

    Args:
        folder: where the pictures go.
    """
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        demo = [sys.executable, "-m", "bivshap_lightning.cli", "demo", "-o", f"{scratch}/demo"]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        with tensorboard("--logdir", f"{scratch}/demo/logs") as address:
            for name, state in PICTURES.items():
                page = Page(browser, address)
                page.tab.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                page.open(**state)
                page.tab.wait_for_timeout(1_000)
                bottom = page.tab.evaluate("document.querySelector('.views').getBoundingClientRect().bottom") + 16
                file = folder / f"{name}.png"
                page.tab.screenshot(path=file, clip={"x": 0, "y": 0, "width": WIDTH, "height": min(HEIGHT, bottom)})
                with Image.open(file) as image:
                    image.convert("RGB").quantize(255, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    make_pictures(ROOT / "docs" / "images")
