"""Text that comes from data, made safe for where it is shown: figures, Markdown, tags and file names."""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import takewhile

from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font

from bivshap_lightning.text import printable

FAMILY = "DejaVu Sans"
"""Comes with matplotlib, so figures look the same everywhere."""

MISSING = "□"
"""Stands for a character that no installed font can draw."""

_FURTHER_FAMILIES = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "SimHei",
    "Noto Sans",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Emoji",
    "Segoe UI Symbol",
    "Arial Unicode MS",
)
_MARKDOWN_SYNTAX = re.compile(r"[\\`*_{}\[\]()#+!|~<>&$^:@\"'=-]")
_MAX_PART = 60
_LONG = 20
# Signs that may be all that tells two class names apart, longest first.
_SPELT_OUT = {
    "<=": "le",
    ">=": "ge",
    "≤": "le",
    "≥": "ge",
    "<": "lt",
    ">": "gt",
    "=": "eq",
    "+": "plus",
    "%": "percent",
    "&": "and",
    "#": "sharp",
}


def plain(text: str) -> str:
    r"""One line of printable text: white space becomes a space, other control characters go.

    Example:
        >>> plain("two\nlines\x07 ")
        'two lines'
    """
    return " ".join(printable(" ".join(text.split()), replacement="", longest=None).split())


@lru_cache(maxsize=4096)
def drawable(text: str) -> str:
    r"""The line of `plain` with `MISSING` for what no installed font can draw.

    Example:
        >>> drawable("caf\u00e9 \u0379")
        'café □'
    """
    return "".join(char if family_of(char) else MISSING for char in plain(text))


def families_for(text: str) -> list[str]:
    """Font families that cover a drawable text, the standard one first.

    Example:
        >>> families_for("x")
        ['DejaVu Sans']
    """
    further = {family for family in map(family_of, set(text)) if family not in {None, FAMILY}}
    return [FAMILY, *(family for family in _FURTHER_FAMILIES if family in further)]


def markdown_text(text: str) -> str:
    """One line that Markdown and HTML show letter by letter: syntax becomes character references.

    Example:
        >>> markdown_text("a|b <i>")
        'a&#124;b &#60;i&#62;'
    """
    return _MARKDOWN_SYNTAX.sub(lambda match: f"&#{ord(match[0])};", plain(text))


def tag_part(text: str) -> str:
    """One step of a tag, also usable as a folder name: letters, digits, dot, dash and underscore.

    Example:
        >>> tag_part("../cat / dog"), tag_part("<=50K"), tag_part(">50K")
        ('cat_dog', 'le_50K', 'gt_50K')
    """
    spelt = plain(text)
    for sign, word in _SPELT_OUT.items():
        spelt = spelt.replace(sign, f" {word} ")
    part = re.sub(r"(\.{2,}|[^\w.-])+", "_", spelt).strip("._-")
    return part[:_MAX_PART].rstrip("._-") or "unnamed"


def distinct(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if it is taken; case does not make a difference.

    Example:
        >>> distinct("a", {"A", "b"})
        'a_2'
    """
    lowered = {other.lower() for other in taken}
    candidate, number = name, 2
    while candidate.lower() in lowered:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def shorten(text: str, length: int) -> str:
    """At most `length` characters; what is cut out of the middle leaves an ellipsis.

    Both ends stay, because names of related features differ in either.

    Example:
        >>> shorten("mean_concave_points", 11)
        'mean_…oints'
    """
    if len(text) <= length:
        return text
    head = max(1, (length - 1) // 2)
    tail = max(0, length - 1 - head)
    return f"{text[:head].rstrip()}…{text[len(text) - tail :].lstrip()}"


def labels_of(names: Sequence[str]) -> list[str]:
    """Names for a figure: long ones that would look the same when shortened keep the part in which they differ.

    Example:
        >>> labels_of(["age", "pressure_01_in_the_left_ventricle", "pressure_02_in_the_left_ventricle"])
        ['age', 'pressure…01', 'pressure…02']
    """
    labels = [plain(name) for name in names]
    alike: dict[str, list[int]] = {}
    for position, label in enumerate(labels):
        if len(label) > _LONG:
            alike.setdefault(shorten(label, _LONG // 2), []).append(position)
    for positions in alike.values():
        if len(positions) > 1:
            own_parts = _own_parts([labels[position] for position in positions])
            for position, own_part in zip(positions, own_parts, strict=True):
                labels[position] = _with_own_part(labels[position], own_part)
    return labels


def checked_words(words: Sequence[str], n_players: int) -> tuple[str, ...]:
    """The words, if there is one per player.

    Example:
        >>> checked_words(["not", "bad"], 2)
        ('not', 'bad')
    """
    if len(words) != n_players:
        raise ValueError(
            f"`words` must hold {n_players} words, one per player, got {len(words)}. Leave it out to use the names."
        )
    return tuple(words)


def _with_own_part(label: str, own_part: str) -> str:
    """The start of a label and the part that tells it apart, which may be in the start already."""
    head = label[: _LONG // 2 - 2]
    if own_part in head:
        return f"{label[: _LONG - 1]}…"
    return f"{head}…{shorten(own_part, _LONG - 6)}"


def _own_parts(texts: Sequence[str]) -> list[str]:
    """Each text without the words that all of them begin or end with."""
    start = _shared_start(texts)
    while start and texts[0][start - 1].isalnum():
        start -= 1
    end = _shared_start([text[start:][::-1] for text in texts])
    while end and texts[0][len(texts[0]) - end].isalnum():
        end -= 1
    return [text[start : len(text) - end] for text in texts]


def _shared_start(texts: Sequence[str]) -> int:
    """How many characters all texts have in common from the start."""
    return sum(1 for _ in takewhile(lambda chars: len(set(chars)) == 1, zip(*texts, strict=False)))


@lru_cache(maxsize=4096)
def family_of(char: str) -> str | None:
    """The first family with a glyph for the character."""
    if ord(char) in _code_points(FAMILY):
        return FAMILY
    return next((family for family in _installed_families() if ord(char) in _code_points(family)), None)


@lru_cache(maxsize=1)
def _installed_families() -> tuple[str, ...]:
    installed = {font.name for font in fontManager.ttflist}
    return tuple(family for family in _FURTHER_FAMILIES if family in installed)


@cache
def _code_points(family: str) -> frozenset[int]:
    return frozenset(FT2Font(findfont(FontProperties(family=[family]))).get_charmap())
