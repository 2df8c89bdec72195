"""One audit as one HTML page, for a person who was not there: `bivshap report` on the command line.

The page asks for nothing from the network, runs no script, and reads the record only: neither torch nor the model.
Everything in it that comes from data is text and cannot become markup.
"""

from bivshap_lightning.views.html.page import render_failure, render_page

__all__ = ["render_failure", "render_page"]
