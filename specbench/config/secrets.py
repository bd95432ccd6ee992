"""Secrets in files: `${NAME}` references are resolved, literal ones are refused."""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from specbench.config.document import Entries, Items, Node, Place, Problems, Scalar
from specbench.config.records import leaves
from specbench.config.scalars import Unreadable, read_scalar
from specbench.model.host import is_secret_name

_REFERENCE = re.compile(r"\$\{([^}]*)\}|\$\{")
_WHOLE = re.compile(r"\$\{[^}]*\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_private(path: str | Path) -> bool:
    """Whether only its owner can read the file."""
    try:
        return not stat.S_IMODE(Path(path).stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    except (OSError, ValueError):
        return False


def refuse_literal_secrets(tree: Entries, problems: Problems, advice: str) -> None:
    """Refuse a secret that stands in the file itself; its value is never repeated."""
    for name, place, node in _named(tree):
        if is_secret_name(name) and any(_is_literal(leaf) for leaf in leaves(node)):
            problems.add(f"{name} looks like a secret, which must not stand here", place, advice)


def _is_literal(leaf: Scalar) -> bool:
    holds_something = leaf.value is not None and not isinstance(leaf.value, bool)
    return holds_something and leaf.text != "" and not _WHOLE.fullmatch(leaf.text)


def _named(tree: Node) -> Iterator[tuple[str, Place, Node]]:
    match tree:
        case Entries():
            for name, (place, node) in tree.entries.items():
                if isinstance(node, Entries):
                    yield from _named(node)
                else:
                    yield name, place, node
                    yield from _named(node)
        case Items():
            for item in tree.items:
                yield from _named(item)
        case Scalar():
            return


def resolved(
    tree: Node, problems: Problems, environ: Mapping[str, str], *, secret: bool = False
) -> Node:
    """Put in the variables that texts refer to; a missing one is noted in `problems`.

    An unquoted reference may become a number (`port: ${PORT}`), except under the name of a secret.
    """
    match tree:
        case Entries():
            entries = {
                name: (place, resolved(node, problems, environ, secret=is_secret_name(name)))
                for name, (place, node) in tree.entries.items()
            }
            return Entries(tree.place, entries)
        case Items():
            items = (resolved(item, problems, environ, secret=secret) for item in tree.items)
            return Items(tree.place, tuple(items))
        case Scalar() if "${" in tree.text:
            text = _substituted(tree, problems, environ)
            value = read_number(text) if tree.plain and not secret else text
            return replace(tree, value=value, text=text, exact=False)
        case Scalar():
            return tree


def read_number(text: str) -> str | int | float:
    """Return the number that a resolved text is, or the text."""
    try:
        value = read_scalar(text)
    except Unreadable:
        return text
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def _substituted(scalar: Scalar, problems: Problems, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        place = scalar.at(match.start())
        if name is None or not _NAME.fullmatch(name):
            problems.add(f"{match[0]!r:.60} refers to no variable", place, "write ${NAME}")
        elif name not in environ:
            problems.add(f"the environment variable {name} is not set", place, f"export {name}=...")
        else:
            return environ[name]
        return ""

    return _REFERENCE.sub(value, scalar.text)
