"""The built site: no dead link, nothing from the network, every name and command; and a strict build that can fail."""

import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from bivshap_lightning.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs."""
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html"]
    return subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(source), str(folder / "html")],
        cwd=ROOT, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip


class Page(HTMLParser):
    """Targets, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.update(filter(None, (found.get("id"), found.get("name"))))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site")
    run = build(ROOT / "docs", folder)
    assert run.returncode == 0, run.stderr
    return {path: Page(path) for path in (folder / "html").rglob("*.html")}


def test_every_link_within_the_site_leads_somewhere(site):
    n_links = 0
    for path, page in site.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            n_links += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name}: {link}"
            if parts.fragment and target in site:
                assert unquote(parts.fragment) in site[target].ids, f"{path.name}: {link}"
    assert n_links > 500


def test_looking_at_the_site_loads_nothing_from_the_network(site):
    for path, page in site.items():
        assert not [name for name in page.loaded if urlsplit(name).netloc], path.name
    for style in next(iter(site)).parents[0].rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style.name


def test_formulas_are_drawn_by_the_browser_itself(site):
    (path,) = (path for path in site if path.parts[-2:] == ("theory", "structure.html"))
    assert path.read_text(encoding="utf-8").count("<math") > 20


def test_every_command_and_every_number_of_the_catalogue_has_its_place(site):
    pages = {path.parts[-1]: path.read_text(encoding="utf-8") for path in site}
    for command in ("audit", "gate", "calibrate", "history", "report", "tensorboard", "demo"):
        assert f"usage: bivshap {command}" in pages["commands.html"]
    shown = unescape(re.sub(r"<[^>]+>", "", pages["numbers.html"]))
    for number in CATALOGUE:
        assert number.tag.replace("{explainer}", "<explainer>") in shown


@pytest.fixture
def small(tmp_path) -> Path:
    """A site of one page with the settings and extensions of ours."""
    source = tmp_path / "docs"
    source.mkdir()
    shutil.copytree(ROOT / "docs" / "_extensions", source / "_extensions")
    shutil.copytree(ROOT / "docs" / "_static", source / "_static")
    text = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    (source / "conf.py").write_text(text.replace("str(HERE.parent)", repr(str(ROOT))), encoding="utf-8")
    return source


def test_the_strict_build_fails_at_what_leads_nowhere(small, tmp_path):
    wrong = ["[a](no_page.md)", "[b](#no_target)", "![c](no_picture.png)", "{py:func}`bivshap_lightning.no_name`"]
    (small / "index.md").write_text("# Page\n\n" + "\n\n".join(wrong) + "\n", encoding="utf-8")
    run = build(small, tmp_path)
    assert run.returncode != 0
    for name in ("no_page.md", "no_target", "no_picture.png", "no_name"):
        assert name in run.stderr


def test_the_strict_build_fails_at_public_names_without_docstring_or_page(small, tmp_path):
    """With one package on the page the names of the others are missing; and a name of it has lost its docstring."""
    with (small / "conf.py").open("a", encoding="utf-8") as conf:
        conf.write("import bivshap_lightning.graph\nbivshap_lightning.graph.mean_by_name.__doc__ = None\n")
    text = "# Page\n\n```{eval-rst}\n.. public-names:: bivshap_lightning.graph\n```\n"
    (small / "index.md").write_text(text, encoding="utf-8")
    run = build(small, tmp_path)
    assert run.returncode != 0
    assert "bivshap_lightning.graph.mean_by_name has no docstring" in run.stderr
    assert "bivshap_lightning.gate.judge is public and stands on no page" in run.stderr
    assert "bivshap_lightning.graph.relative_gamma" not in run.stderr  # documented on this page
