"""The reference: every public name from its docstring, and a warning for a name without one.

``.. public-names:: bivshap_lightning.graph`` documents all names in `__all__` of a package. A name that several
packages export is documented once, by the first of them; the others link to it. A reference in a docstring may use any
path under which the object can be imported.
"""

import inspect
import sys
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

ROOT = "bivshap_lightning"
logger = logging.getLogger(__name__)


def public_packages() -> list[str]:
    """The packages with public names: those whose `__init__` has an `__all__`."""
    root = import_module(ROOT)
    names = [ROOT, *(m.name for m in walk_packages(root.__path__, f"{ROOT}.") if m.ispkg)]
    return [name for name in names if hasattr(import_module(name), "__all__")]


def public_names(package: str) -> list[str]:
    """The names in `__all__` of a package without those that Python defines."""
    return [name for name in import_module(package).__all__ if not name.startswith("__")]


def kind_of(value: Any) -> str:
    """How autodoc calls it."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isroutine(value) else "data"


def key_of(path: str, value: Any) -> tuple[str, str]:
    """What identifies an object under all its paths; numbers and texts are not unique and go by their path."""
    return (path, "") if kind_of(value) == "data" else (value.__module__, value.__qualname__)


@cache
def homes() -> dict[tuple[str, str], str]:
    """The path under which each public object is documented: that of the first package that exports it."""
    found: dict[tuple[str, str], str] = {}
    for package in public_packages():
        for name in public_names(package):
            path = f"{package}.{name}"
            found.setdefault(key_of(path, getattr(import_module(package), name)), path)
    return found


def constant(path: str, value: Any) -> list[str]:
    """A constant with the string below its definition, which stands in some module of the package."""
    package, _, name = path.rpartition(".")
    homes = [m for m in sorted(sys.modules) if m.startswith(package) and getattr(sys.modules[m], name, None) is value]
    texts = [ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name)) for home in homes]
    (doc, *_) = [text for text in texts if text] or [[]]
    if not doc:
        logger.warning("%s has no docstring", path, type="public_names")
    shown = repr(value) if len(repr(value)) < 120 else "..."
    head = [f".. py:currentmodule:: {package}", "", f".. py:data:: {name}", f"   :value: {shown}", ""]
    return [*head, *(f"   {line}" for line in doc), ""]


class PublicNames(Directive):
    """The directive."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Document the names of one package."""
        package = self.arguments[0]
        lines: list[str] = []
        for name in public_names(package):
            value, path = getattr(import_module(package), name), f"{package}.{name}"
            home = homes()[key_of(path, value)]
            if home != path:
                lines += [f"`{name}` is :py:obj:`{home}`.", ""]
                continue
            kind = kind_of(value)
            if kind == "data":
                lines += constant(path, value)
                continue
            if not inspect.getdoc(value):
                logger.warning("%s has no docstring", path, type="public_names")
            lines += [f".. auto{kind}:: {path}"]
            if kind in ("class", "exception"):
                lines += ["   :members:", "   :show-inheritance:"] if kind == "exception" else ["   :members:"]
            lines += [""]
        node = nodes.container()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, source=f"<{package}>"), self.content_offset, node)
        return node.children


def imported(target: str) -> Any:
    """The object of a dotted path, or None."""
    parts = target.split(".")
    for k in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:k]))
        except ImportError:
            continue
        try:
            for name in parts[k:]:
                value = getattr(value, name)
        except AttributeError:
            # An attribute that only instances have is as good as its class.
            return value if inspect.isclass(value) else None
        return value
    return None


def resolve(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """A link to an object that is documented under another path."""
    if node.get("refdomain") != "py" or not node["reftarget"].startswith(ROOT):
        return None
    owner, _, member = node["reftarget"].rpartition(".")
    for path, rest in ((node["reftarget"], ""), (owner, f".{member}")):
        value = imported(path)
        key = (getattr(value, "__module__", None), getattr(value, "__qualname__", None))
        if key in homes():
            domain, target = env.get_domain("py"), homes()[key] + rest
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)
    return None


def is_no_mistake(app: Sphinx, domain: Any, node: Any) -> bool | None:
    """Names of other libraries and of internal modules need no page; a path that cannot be imported is a mistake."""
    if domain is None or domain.name != "py":
        return None
    target = node["reftarget"]
    inside = node.get("py:module") or ROOT
    candidates = [target, f"{inside}.{target}", f"{ROOT}.{target}"]
    if node.get("py:class"):
        candidates.append(f"{inside}.{node['py:class']}.{target}")
    if not target.startswith(ROOT) and node.get("reftype") in ("class", "obj", "data", "exc", "attr"):
        return True  # an annotation: a type of another library or an alias; or a field of the class itself
    return True if any(imported(path) is not None for path in candidates) else None


def check(app: Sphinx, env: Any) -> None:
    """Every public object is on some page."""
    documented = env.get_domain("py").objects
    for path in homes().values():
        if path not in documented:
            logger.warning("%s is public and stands on no page of the reference", path, type="public_names")


def as_rst(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Bars outside code are bars (absolute values), not substitutions."""
    for k, line in enumerate(lines):
        parts = line.split("`")
        lines[k] = "`".join(p if j % 2 else p.replace("|", "\\|") for j, p in enumerate(parts))


def readable(app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: Any, returns: Any) -> Any:
    """Show a default that a dataclass makes as "...": "<factory>" is no Python and would not be formatted."""
    return (signature.replace("<factory>", "..."), returns) if signature else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it."""
    app.add_directive("public-names", PublicNames)
    app.connect("missing-reference", resolve)
    app.connect("warn-missing-reference", is_no_mistake)
    app.connect("env-check-consistency", check)
    app.connect("autodoc-process-docstring", as_rst)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
