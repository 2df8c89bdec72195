"""TensorBoard with the tab of this package, whether or not the package's entry point is installed.

Run as a script: `python -m tests.views.explorer.server --logdir <folder> --port <port>`.
"""

import sys

from tensorboard import default, program

from bivshap_lightning.views.tensorboard.plugin import BivShapPlugin


def make_program(*arguments: str) -> program.TensorBoard:
    """A configured TensorBoard that has not been started."""
    board = program.TensorBoard(plugins=[*default.get_static_plugins(), BivShapPlugin])
    board.configure(argv=["tensorboard", *arguments])
    return board


if __name__ == "__main__":
    sys.exit(make_program(*sys.argv[1:]).main())
