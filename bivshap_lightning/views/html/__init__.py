"""One audit record as one HTML page for readers: `bivshap report` on the command line.

The page loads nothing from the network and is made from the record alone: it needs neither torch nor the model. Its
only script, allowed by its hash, is the explorer. Everything in it that comes from data is escaped.
"""

from bivshap_lightning.views.html.page import render_failure, render_page

__all__ = ["render_failure", "render_page"]
