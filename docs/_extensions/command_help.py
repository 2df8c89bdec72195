"""What the program itself says: ``.. command-help::`` is the help of `bivshap`, ``.. starter-rules::`` its rules."""

import argparse
import os

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from bivshap_lightning import cli
from bivshap_lightning.gate import STARTER


class CommandHelp(Directive):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        """A section per command."""
        os.environ["COLUMNS"] = "88"  # argparse wraps to the terminal
        parser = cli._parser()
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        found: list[nodes.Node] = [*_section("bivshap", parser)]
        for name, command in commands.choices.items():
            found += _section(f"bivshap {name}", command)
        return found


class StarterRules(Directive):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        """The rules as TOML."""
        return [nodes.literal_block(text=STARTER, language="toml")]


def _section(title: str, parser: argparse.ArgumentParser) -> list[nodes.Node]:
    section = nodes.section(ids=[nodes.make_id(title)], names=[title])
    section += nodes.title("", "", nodes.literal(text=title))
    section += nodes.literal_block(text=parser.format_help(), language="text")
    return [section]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.add_directive("command-help", CommandHelp)
    app.add_directive("starter-rules", StarterRules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
