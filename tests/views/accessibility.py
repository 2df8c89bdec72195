"""What a screen reader, a keyboard and weak eyes find on a page, asked of Chromium.

`faults` lists what is wrong in the accessibility tree, `faint_texts` what has too little contrast, and
`walk_by_keyboard` follows the Tab key.
"""

import re
from pathlib import Path

CONTROLS = {"button", "checkbox", "combobox", "link", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox",
            "ToggleButton", "DisclosureTriangle"}  # fmt: skip
PICTURES = {"img", "image", "graphics-document", "graphics-symbol"}
LEAST_CONTRAST, LEAST_OF_LARGE = 4.5, 3.0
"""Of text on its background; of large text, from 24 pixels or 18.66 bold ones on."""

ASKED = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def ask(tab, call: str, argument=None):
    """What a function of accessibility.js finds in a page."""
    return tab.evaluate(f"(argument) => {{ {ASKED}\nreturn {call}; }}", argument)


def faults(tab) -> list[str]:
    """Controls and pictures without a name, headings that skip a level, references that lead nowhere."""
    found = list(ask(tab, "visibleFaults()"))
    session = tab.context.new_cdp_session(tab)
    session.send("Accessibility.enable")
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value", "")
        name = node.get("name", {}).get("value", "").strip()
        is_focusable = any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))
        if node.get("ignored"):
            continue
        if (role in CONTROLS | PICTURES or is_focusable) and role != "RootWebArea" and not name:
            found.append(f"{role or 'an element'} without a name")
        if is_focusable and role in ("generic", "none", ""):
            found.append(f"{name} takes the focus without a role")
    session.detach()
    return found + _gaps(ask(tab, "headings()"))


def _gaps(headings: list[tuple[int, str]]) -> list[str]:
    """Headings that skip a level, or stand before the first."""
    found = [] if [level for level, _ in headings].count(1) == 1 else ["not one h1"]
    before = 0
    for level, text in headings:
        if level > before + 1:
            found.append(f"h{level} “{text}” after h{before}")
        if not re.search(r"\S", text):
            found.append(f"an empty h{level}")
        before = level
    return found


def faint_texts(tab) -> list[str]:
    """Visible texts with less contrast than WCAG 2.2 AA asks for, with their ratios."""
    found = ask(tab, "faintTexts(argument)", [LEAST_CONTRAST, LEAST_OF_LARGE])
    assert found["n"] > 20
    return found["faint"]


def walk_by_keyboard(tab, *, most: int = 400) -> list[str]:
    """Names of what the Tab key reaches, in order; each must be on the screen, show it, and follow in the page."""
    tab.evaluate("document.activeElement?.blur()")
    names, places = [], []
    for _ in range(most):
        tab.keyboard.press("Tab")
        at = ask(tab, "focused()")
        if at is None or (places and at["place"] == places[0]):
            break
        assert at["isSeen"], f"the focus does not show on {at['said']}"
        assert at["isOnScreen"], at["said"]
        names.append(at["said"])
        places.append(at["place"])
    assert places == sorted(places), "the focus jumps back"
    return names
