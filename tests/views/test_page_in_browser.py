"""The page of a real audit in a real browser: how long it is, on paper too, and whether everyone can use it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bivshap_lightning.audit.record import AuditRecord
from bivshap_lightning.gate import Rule, judge
from bivshap_lightning.views.html import answers, render_page
from tests.views.accessibility import faint_texts, faults, walk_by_keyboard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]

ROOT = Path(__file__).parents[2]
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
MOST_SCREENS = {"desk": 4.0, "desk, before details": 3.0, "phone": 6.5}
MOST_PAGES = 32
"""Of A4 paper, with everything unfolded."""
MEASURE = """() => ({
  whole: document.documentElement.scrollHeight / innerHeight,
  details: document.querySelector("#suffices").getBoundingClientRect().top / innerHeight,
  width: document.documentElement.scrollWidth,
  wide: [...document.querySelectorAll("table")].filter((t) => t.getBoundingClientRect().right > innerWidth).length,
})"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """The folder of `bivshap demo`."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "bivshap_lightning.cli", "demo", "-o", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def pages(demo) -> dict[str, Path]:
    """The demo's page, where the model passes, and one with two broken rules and the audit before it."""
    first, last = sorted((demo / "logs" / "bivshap").glob("*.json"))
    record, previous = AuditRecord.load(last), AuditRecord.load(first)
    rules = [Rule(metric="bivshap/roles/irrelevant", max=0), Rule(metric="bivshap/roles/n_independent", min=9)]
    rules.append(Rule(metric="bivshap/roles/undecided", max=0.05))
    failed = demo / "failed.html"
    verdict = judge(record, rules, previous)
    failed.write_text(render_page(record, verdict=verdict, previous=previous), encoding="utf-8")
    return {"passed": demo / "report.html", "failed": failed}


def show(browser, file: Path, size, **options):
    tab = browser.new_page(viewport=size, **options)
    tab.goto(file.as_uri(), wait_until="load")
    tab.locator("[data-count]").first.wait_for(timeout=20_000)
    return tab


@pytest.mark.parametrize("name", ["passed", "failed"])
def test_the_page_is_a_few_screens_long_before_details(browser, pages, name):
    """Height in screens as it opens: the whole page, and what stands above the first section that folds."""
    desk = show(browser, pages[name], DESK).evaluate(MEASURE)
    phone = show(browser, pages[name], PHONE).evaluate(MEASURE)
    long = f"{desk['whole']:.2f} desk screens, {desk['details']:.2f} before details"
    print(f"{name}: {long}, {phone['whole']:.2f} on a phone")
    assert desk["whole"] <= MOST_SCREENS["desk"]
    assert desk["details"] <= MOST_SCREENS["desk, before details"] + (0.6 if name == "failed" else 0)
    assert phone["whole"] <= MOST_SCREENS["phone"]
    for size, found in ((DESK, desk), (PHONE, phone)):
        assert found["width"] <= size["width"]
        assert found["wide"] == 0


def test_verdict_decisive_sentence_roles_and_picture_are_open(browser, pages):
    tab = show(browser, pages["passed"], DESK)
    assert tab.locator("h1").inner_text() == "The model meets its 4 rules"
    assert tab.locator(".decisive").bounding_box()["y"] < DESK["height"] / 4
    assert [
        text.split("\n")[-1].split(":")[0][2:] for text in tab.locator("#roles .tiles li").all_inner_texts()
    ] == list(answers.SIGNS)
    assert tab.locator("#roles .tiles").bounding_box()["y"] < DESK["height"]
    assert tab.locator("#main-view svg").bounding_box()["y"] < 1.6 * DESK["height"]
    assert tab.locator("details[open]").count() == 0


def test_the_signs_of_roles_are_those_of_the_explorer():
    script = (ROOT / "bivshap_lightning/views/explorer/static/dom.js").read_text(encoding="utf-8")
    assert dict(re.findall(r'(\w+): \{ colour: "[^"]*", sign: "(.)"', script)) == answers.SIGNS


def test_on_paper_everything_unfolds_on_few_pages(browser, pages):
    tab = show(browser, pages["passed"], {"width": 718, "height": 1040})
    tab.emulate_media(media="print")
    pdf = tab.pdf(format="A4")
    n_pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 5 < n_pages <= MOST_PAGES
    assert tab.evaluate(MEASURE)["wide"] == 0
    assert tab.evaluate("[...document.querySelectorAll('details')].every(d => d.offsetHeight > 60)")
    for control in (".controls", ".gamma", ".bar-of-tabs"):
        assert not tab.locator(control).is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_screen_readers_and_weak_eyes_find_everything(browser, pages, scheme, size):
    for file in pages.values():
        tab = show(browser, file, size, color_scheme=scheme)
        assert faults(tab) == []
        assert faint_texts(tab) == []
        tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert faults(tab) == []
        assert faint_texts(tab) == []


def test_the_keyboard_reaches_everything_in_order(browser, pages):
    tab = show(browser, pages["passed"], DESK)
    names = walk_by_keyboard(tab)
    wanted = ["Skip to the verdict", "Verdict", "Roles in detail", "Class or sample", "Search a feature",
              "Gamma, logarithmic", "Axis", "PNG", "How it was made"]  # fmt: skip
    places = [max(k for k, name in enumerate(names) if name == wanted_name) for wanted_name in wanted]
    assert places == sorted(places)
    assert names[0] == "Skip to the verdict"
