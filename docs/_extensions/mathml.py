"""Formulas as MathML, which browsers draw by themselves: no script and nothing to download."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


def visit_inline(self: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    self.body.append(f'<span class="math">{tex2mathml(node.astext())}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """A formula in a line of its own, with its number if it has a label."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(tex2mathml(node.astext(), as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the renderer of formulas."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", _choose)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _choose(app: Sphinx, config: Any) -> None:
    config.html_math_renderer = "mathml"
