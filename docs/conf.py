"""How Sphinx builds this site: `make docs`. What goes beyond Sphinx's own extensions is in `_extensions/`."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]

from bivshap_lightning import __version__  # noqa: E402

project = "bivshap_lightning"
author = "The bivshap_lightning authors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "public_names",
    "command_help",
]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_extensions", "gallery/said"]
nitpicky = True  # a reference that leads nowhere is a warning, and `make docs` turns warnings into errors
default_role = "code"  # docstrings write code between single backticks

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # a property is not described a second time by the list of attributes

html_theme = "furo"
html_title = "bivshap_lightning"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#0b6fa4", "color-brand-content": "#0b6fa4"},
    "dark_css_variables": {"color-brand-primary": "#6fb7dd", "color-brand-content": "#6fb7dd"},
}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The navigation ends with "*", so that a new page is found by itself; usually there is none.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(lambda r: getattr(r, "subtype", "") != "empty_glob")
