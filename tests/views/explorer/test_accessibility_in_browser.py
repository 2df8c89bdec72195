"""The tab for people who hear it, use the keyboard, need contrast, or have long names and narrow screens."""

import shutil

import pytest

from tests.views.accessibility import faint_texts, faults, walk_by_keyboard
from tests.views.explorer.browsing import Page, tensorboard
from tests.views.explorer.logs import LONG, write_examples, write_wide_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed"),
]

VIEWS = ("axis", "graph", "matrix", "input", "time", "numbers")
WIDE = "experiments/2026-03-churn/version_12"
CROWDED = """() => [...document.querySelectorAll("#main-view svg")].flatMap((picture) => {
  const frame = picture.getBoundingClientRect();
  const labels = [...picture.querySelectorAll("text.label, text.part-label, .chip text")];
  const level = labels.filter((text) => !text.hasAttribute("transform"));
  const boxes = level.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const outside = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1);
  const cut = outside.map(([name]) => `cut: ${name}`);
  const over = boxes.flatMap(([a, one], k) => boxes.slice(k + 1).filter(([, other]) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 5).map(([b]) => `${a} over ${b}`));
  return [...cut, ...over];
})"""
"""Labels that their picture cuts off, and pairs of labels of which one covers the other."""
MOVING = """() => document.getAnimations().length + [...document.querySelectorAll("*")].filter((node) => {
  const style = getComputedStyle(node);
  const seconds = parseFloat(style.transitionDuration) + parseFloat(style.animationDuration);
  return seconds > 0 || style.scrollBehavior === "smooth";
}).length"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    write_wide_table(write_examples(folder))
    with tensorboard("--logdir", str(folder)) as address:
        yield address


def show(page: Page, run: str, view: str) -> None:
    page.open(run=run, view=view, beside="graph")
    page.tab.locator("#main-view svg").first.wait_for(timeout=30_000)
    if view == "time" and run != "texts":
        page.tab.locator("[aria-label='What changed between two audits']").wait_for(timeout=30_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_screen_readers_and_weak_eyes_find_everything(address, browser, scheme, width):
    """Names and roles of all controls and pictures, headings without gaps, contrast; nothing moves by itself."""
    page = Page(browser, address, color_scheme=scheme, reduced_motion="reduce")
    page.tab.set_viewport_size({"width": width, "height": 900})
    for run in ("table", "pictures", WIDE):
        for view in VIEWS:
            show(page, run, view)
            assert faults(page.tab) == [], (run, view)
            assert faint_texts(page.tab) == [], (run, view)
            assert page.tab.evaluate(MOVING) == 0
    page.check()


@pytest.mark.parametrize("width", [390, 1400])
def test_long_names_neither_overlap_nor_look_alike(address, browser, width):
    """30 columns that begin and end alike: no two are drawn with the same label, and no label is cut or covered."""
    page = Page(browser, address)
    page.tab.set_viewport_size({"width": width, "height": 900})
    for run in ("pictures", WIDE):
        for view in VIEWS:
            show(page, run, view)
            assert page.tab.evaluate(CROWDED) == [], (run, view)
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    for view in ("axis", "input"):
        show(page, WIDE, view)
        labels = page.tab.locator("#main-view .row .label, #main-view .chip text").all_text_contents()
        assert len(set(labels)) == len(labels) == 3 * len(LONG)
    options = page.tab.get_by_label("Run", exact=True).locator("option").all_text_contents()
    assert "experiments/2026-03-churn/version_12" in options  # other runs have nothing in common with it
    page.check()


def test_changes_are_announced(address, browser):
    """One line, there from the start, says what has changed and nothing else: what screen readers read out."""
    page = Page(browser, address)
    page.open(run="table", subject="class:<=50K")
    tab = page.tab
    line = tab.locator("p[role=status][aria-live=polite]")
    line.evaluate("(node) => { node.dataset.first = 'yes'; }")

    def heard(*words: str) -> str:
        for word in words:
            tab.locator("p[role=status]", has_text=word).wait_for(state="attached", timeout=5_000)
        assert line.get_attribute("data-first") == "yes"  # a line that is put in anew is often not read
        return line.inner_text()

    heard("Run table, epoch 6", "What class “<=50K” leans on.", "No feature is selected.")
    tab.get_by_label("Gamma as a number").fill("0.125")
    tab.get_by_label("Gamma as a number").press("Enter")
    said = heard("At gamma 0.125:", "essential", "redundant pairs")
    assert "epoch" not in said
    tab.get_by_label("Epoch", exact=True).fill("2")
    heard("epoch 2, step 20")
    tab.get_by_label("Class or sample").select_option("sample:0")
    heard("for sample 0 leans on.")
    tab.get_by_role("tab", name="Matrix").click()
    heard("Matrix: the decision")
    tab.get_by_label("Search a feature").fill("native_country")
    said = heard("native_country is selected")
    assert "Matrix" not in said
    page.check()


def test_the_keyboard_reaches_everything_and_the_focus_stays(address, browser):
    page = Page(browser, address)
    show(page, "table", "axis")
    tab = page.tab
    names = walk_by_keyboard(tab)
    wanted = ["Run", "Epoch", "Class or sample", "Search a feature", "Gamma, logarithmic", "Axis", "PNG"]
    assert [name for name in names if name in wanted] == wanted
    assert sum("once the others are present" in name for name in names) == 14  # the rows
    # What is drawn anew under the focus keeps it.
    tab.get_by_role("tab", name="Matrix").click()
    for name in ("C: interaction", "H: redundancy"):
        tab.get_by_role("button", name=name).focus()
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.textContent") == name
        assert tab.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    tab.get_by_role("tab", name="Over time").click()
    button = tab.get_by_role("button", name="Importance", exact=True)
    button.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("document.activeElement.textContent === 'Importance'")
    tab.locator(".details button.name").first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("document.activeElement.closest('.details') !== null")
    page.check()
