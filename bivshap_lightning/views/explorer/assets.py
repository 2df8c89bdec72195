"""The files of the explorer: served one by one to TensorBoard's tab, joined into one script for the HTML page."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

MODULES = (
    "dom.js",
    "names.js",
    "dark.js",
    "announce.js",
    "decide.js",
    "source.js",
    "state.js",
    "export.js",
    "axis.js",
    "details.js",
    "graph.js",
    "matrix.js",
    "input.js",
    "time.js",
    "numbers.js",
    "controls.js",
    "index.js",
)
"""The ES modules of the explorer, each after those that it imports."""

STYLE_SHEET = "style.css"
CONTENT_TYPES = {".js": "application/javascript", ".css": "text/css"}

_IMPORT = re.compile(r"^import (\{[^}]*\}) from \"\./(\w+\.js)\";$", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@cache
def read_asset(name: str) -> str:
    """The text of a file of the explorer.

    Args:
        name: one of :data:`MODULES` or :data:`STYLE_SHEET`.

    Raises:
        ValueError: there is no such file.

    Example:
        >>> "export async function render" in read_asset("index.js")
        True
    """
    if name not in (*MODULES, STYLE_SHEET):
        raise ValueError(f"`name` must be a file of the explorer, got {name!r}. There are: {', '.join(MODULES)}.")
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


@cache
def bundled_script() -> str:
    """All modules as one script, for a page that may load nothing: each is a function that returns its exports.

    Example:
        >>> bundled_script().splitlines()[0]
        'const modules = {};'
    """
    parts = ["const modules = {};"]
    for name in MODULES:
        text = read_asset(name)
        known = MODULES[: MODULES.index(name)]
        unknown = [imported for _, imported in _IMPORT.findall(text) if imported not in known]
        if unknown:
            raise ValueError(f"`MODULES` must list a module after those it imports, got {unknown} after {name}.")
        body = _EXPORT.sub("", _IMPORT.sub(r'const \1 = modules["\2"];', text))
        exports = ", ".join(_EXPORT.findall(text))
        parts.append(f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();')
    return "\n".join(parts)
