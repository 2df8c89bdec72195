"""The building blocks of the page: text escaped by markupsafe, tables, pictures, and the style sheet."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from bivshap_lightning.text import printable
from bivshap_lightning.views import render_png

STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #57606a; --paper: #fff; --card: #f5f7f9; --line: #d5dbe1;
  --link: #0b5cad; --pass: #0a6b3d; --fail: #b3261e; --warn: #8a5300; --none: #3d4f66; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a3adb8; --paper: #15191d; --card: #1e2429;
  --line: #3a434c; --link: #7cb8f5; --pass: #5fd39a; --fail: #ff8f86; --warn: #f0b35a; --none: #a9bdd6; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
main, header, footer, nav, .notes { max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.2rem; } main { margin-top: .6rem; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.2rem); line-height: 1.2; margin: .1rem 0 .6rem; text-wrap: balance; }
h2 { font-size: 1.35rem; margin: 1.6rem 0 .4rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .3rem; }
p, li { max-width: 52rem; }
p { margin: .6rem 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 3px; }
.skip { position: absolute; left: -999rem; background: var(--paper); padding: .6rem 1rem; z-index: 1; }
.skip:focus { left: .5rem; top: .5rem; }
.soft, caption, figcaption { color: var(--soft); font-size: .9rem; }
.verdict { border-left: .5rem solid var(--none); padding: .2rem 0 .2rem 1.1rem; }
.verdict .kicker { margin: 0; font-weight: 700; letter-spacing: .04em; color: var(--none); }
.verdict.pass { border-color: var(--pass); } .verdict.fail { border-color: var(--fail); }
.pass .kicker, b.pass { color: var(--pass); } .fail .kicker, b.fail { color: var(--fail); }
b.warn { color: var(--warn); } td > b { white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; margin: 1.2rem 0 0; }
nav a { display: inline-block; padding: .25rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; padding: 0;
  margin: .8rem 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem;
  line-height: 1.4; }
.tiles b { display: block; white-space: nowrap; font-size: 1.4rem; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.tiles small { font-size: .9rem; font-weight: 400; color: var(--soft); white-space: nowrap; }
.wide { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; padding: .2rem 0 .5rem; }
caption span { display: inline-block; max-width: min(46rem, 100vw - 2.6rem); position: sticky; left: 0; }
.facts th { width: 16rem; }
th small { display: block; font-weight: 400; color: var(--soft); min-width: 11rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line);
  min-width: 3.2rem; overflow-wrap: break-word; }
thead th { border-bottom: 2px solid var(--line); font-size: .85rem; color: var(--soft); vertical-align: bottom; }
tbody th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead .number { white-space: normal; }
figure { margin: 1rem 0 1.6rem; }
figure img { display: block; width: 100%; min-width: 40rem; height: auto; border-radius: .4rem;
  background: #fff; border: 1px solid var(--line); }
figure.narrow { max-width: 36rem; } figure.narrow img { min-width: 0; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 1.6rem;
  align-items: start; }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: .5rem; padding: 0 1rem; }
summary { cursor: pointer; padding: .6rem 0; font-weight: 600; }
section > details { border: 0; padding: 0; margin: 0; border-radius: 0; border-top: 1px solid var(--line); }
section > details > summary h2 { display: inline; border: 0; padding: 0; font-size: 1.2rem; }
.decisive { font-size: 1.1rem; }
#explore { max-width: none; } #bivshap-explorer { padding: 0; margin-bottom: .6rem; }
th details, td details { margin: 0; border: 0; padding: 0; }
th summary, td summary { padding: 0; font-weight: inherit; }
li details { display: inline-block; margin: 0; border: 0; padding: 0; vertical-align: top; }
li summary { padding: 0; font-weight: inherit; }
footer { margin: 1.5rem auto 1rem; padding-top: .3rem; border-top: 1px solid var(--line); }
@media screen and (max-width: 48rem) { .tiles { grid-template-columns: 1fr; gap: .3rem; }
  .tiles li { display: grid; grid-template-columns: 5rem 1fr; gap: .6rem; padding: .4rem .8rem; }
  .tiles b { font-size: 1.2rem; }
  .tiles small { display: block; } nav ul { flex-wrap: nowrap; overflow-x: auto; } nav li { flex: none; }
  [class^=stack] thead { display: none; } [class^=stack] tr { display: block;
  padding: .4rem 0; border-bottom: 1px solid var(--line); } [class^=stack] th, [class^=stack] td { display: block;
  border: 0; padding: .1rem 0; text-align: left; white-space: normal; }
  [class^=stack] td::before { content: attr(data-label) ": "; color: var(--soft); } }
@media print { .stack thead { display: none; } .stack tr { display: block; padding: .3rem 0; border-bottom: 1px solid
  var(--line); } .stack th, .stack td { display: block; border: 0; padding: 0; text-align: left; white-space: normal; }
  .stack td::before { content: attr(data-label) ": "; color: var(--soft); } }
@media (prefers-color-scheme: dark) { figure img { filter: brightness(.88); } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --card: #fff; --line: #bbb;
  --link: #000; --pass: #0a6b3d; --fail: #b3261e; --warn: #8a5300; --none: #3d4f66; }
  body { font-size: 10.5pt; } table { font-size: 9pt; } .number { white-space: normal; }
  nav, .skip { display: none; } .wide { overflow: visible; }
  main, header, footer { max-width: none; padding: 0; } .beside { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .beside .number { white-space: nowrap; } .tiles { grid-template-columns: repeat(5, 1fr); font-size: 9pt; }
  figure img { min-width: 0; width: auto; max-width: 100%; max-height: 130mm; filter: none; }
  figure, tr, .tiles li { break-inside: avoid; } h2, h3, caption, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } details { border: 0; padding: 0; } }
"""


MOST_COLUMNS, MOST_ON_PHONES = 9, 3
"""Tables with more columns stand as lists on phones and in print, or on phones only."""


def text(value: object) -> Markup:
    r"""Any value as text that cannot become markup, on one line; markup stays as it is.

    Example:
        >>> text('<b>"a"\x1b'), text(Markup("<br>"))
        (Markup('&lt;b&gt;&#34;a&#34;?'), Markup('<br>'))
    """
    return value if isinstance(value, Markup) else escape(printable(str(value)))


def tag(name: str, *parts: object, **attributes: str) -> Markup:
    """An element around escaped parts; a trailing underscore in an attribute's name is dropped, others are dashes.

    Example:
        >>> print(tag("p", "a < b ", tag("b", "c"), class_="soft", aria_label='"'))
        <p class="soft" aria-label="&#34;">a &lt; b <b>c</b></p>
    """
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{pairs}>{''.join(map(text, parts))}</{name}>")


def breakable(name: str) -> Markup:
    """A long name that may break after a slash or an underscore, as on a phone.

    Example:
        >>> print(breakable("bivshap/group_size"))
        bivshap/<wbr>group_<wbr>size
    """
    return text(name).replace("/", Markup("/<wbr>")).replace("_", Markup("_<wbr>"))


def section(anchor: str, title: str, *parts: Markup) -> Markup:
    """A section that the table of contents can link to.

    Example:
        >>> print(section("cost", "Cost", tag("p", "none")))
        <section id="cost" aria-labelledby="cost-title"><h2 id="cost-title">Cost</h2><p>none</p></section>
    """
    return tag("section", tag("h2", title, id=f"{anchor}-title"), *parts, id=anchor, aria_labelledby=f"{anchor}-title")


def folded_section(anchor: str, title: str, *parts: Markup) -> Markup:
    """A section that unfolds on demand, and in print.

    Example:
        >>> print(folded_section("cost", "Cost", tag("p", "none"))[:66])
        <section id="cost" aria-labelledby="cost-title"><details><summary>
    """
    heading = tag("summary", tag("h2", title, id=f"{anchor}-title"))
    return tag("section", tag("details", heading, *parts), id=anchor, aria_labelledby=f"{anchor}-title")


def bullets(items: Iterable[object], **attributes: str) -> Markup:
    """A list; nothing if there is nothing to list.

    Example:
        >>> print(bullets(["a", "<"]))
        <ul><li>a</li><li>&lt;</li></ul>
    """
    entries = [tag("li", item) for item in items]
    return tag("ul", *entries, **attributes) if entries else Markup()


def folded(summary: str, *parts: Markup) -> Markup:
    """Parts that unfold on demand, and in print.

    Example:
        >>> print(folded("More", tag("p", "this")))
        <details><summary>More</summary><p>this</p></details>
    """
    return tag("details", tag("summary", summary), *parts)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> Markup:
    """A table; the first cell of a row is its heading. One of many columns stands as a list on phones and in print.

    Args:
        caption: what it shows.
        head: column headings.
        rows: cells, escaped here unless they are markup.
        words: how many columns from the left hold words; the others hold numbers.

    Example:
        >>> '<td data-label="sign">&amp;</td>' in table("Words", ["word", "sign"], [["and", "&"]], words=2)
        True
    """

    def cell(name: str, k: int, value: object, **attributes: str) -> Markup:
        return tag(name, value, **attributes, **({} if k < words else {"class_": "number"}))

    top = tag("tr", *(cell("th", k, name, scope="col") for k, name in enumerate(head)))
    body = []
    for row in rows:
        cells = [cell("td", k, value, data_label=head[k]) for k, value in enumerate(row[1:], start=1)]
        body.append(tag("tr", tag("th", row[0], scope="row"), *cells))
    parts = tag("caption", tag("span", caption)), tag("thead", top), tag("tbody", *body)
    return _wide(caption, tag("table", *parts, **_stacked(len(head))))


def _stacked(n_columns: int) -> dict[str, str]:
    name = "stack" if n_columns > MOST_COLUMNS else "stack-phone" if n_columns > MOST_ON_PHONES else ""
    return {"class_": name} if name else {}


def beside(*parts: Markup) -> Markup:
    """Parts side by side where there is room.

    Example:
        >>> print(beside(tag("p", "a"), tag("p", "b")))
        <div class="beside"><div><p>a</p></div><div><p>b</p></div></div>
    """
    return tag("div", *(tag("div", part) for part in parts), class_="beside") if parts else Markup()


def picture(figure: Figure, description: str, caption: str, *, is_narrow: bool = False) -> Markup:
    """A figure inside the page, with a description for screen readers. The figure is cleared.

    Args:
        figure: what to show.
        description: the same in words.
        caption: a line below.
        is_narrow: whether it can be read at the width of a phone.

    Example:
        >>> print(picture(Figure(figsize=(1, 1)), "A <blank> page", "Nothing")[:60])
        <figure><div class="wide" role="region" aria-label="Nothing"
    """
    png, width, height = render_png(figure)
    figure.clear()
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    # Not through `text`, which shortens; base64 needs no escaping.
    image = Markup(f'<img src="{source}" width="{width}" height="{height}" alt="{text(description)}">')
    kind = {"class_": "narrow"} if is_narrow else {}
    return tag("figure", _wide(caption, image), tag("figcaption", caption), **kind)


def _wide(label: str, inner: Markup) -> Markup:
    """What may be wider than a phone scrolls in its own region, which the keyboard reaches."""
    return tag("div", inner, class_="wide", role="region", aria_label=label, tabindex="0")
