"""All data sets, then the page: ``python -m examples.paper --data DIR``."""

from __future__ import annotations

import sys

from examples.paper import page
from examples.paper.experiment import main
from examples.paper.study import parse

if __name__ == "__main__":
    options = parse(__doc__ or "")
    for names in (("drug",), ("divorce",), ("census",), ("mnist",), ("cifar10",), ("imdb",), ("genes", "golub")):
        main(*names, arguments=sys.argv[1:])
    if not options.quick:
        page.main(["--results", str(options.output)])
