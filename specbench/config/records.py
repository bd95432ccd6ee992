"""A YAML tree to frozen records: types and bounds from the records' own annotations."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET

from specbench.config.document import Entries, Items, Node, Place, Problems, Scalar
from specbench.errors import nearest
from specbench.model.host import is_secret_name

Record = TypeVar("Record", bound=msgspec.Struct)

TOP = "the file"

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TYPE_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
}


def plain(node: Node) -> Any:
    """Return the bare value of a tree."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(item) for item in node.items]
        case Entries():
            return {name: plain(value) for name, (_, value) in node.entries.items()}


def leaves(node: Node) -> Iterable[Scalar]:
    """Yield every scalar of a tree."""
    match node:
        case Scalar():
            yield node
        case Items():
            for item in node.items:
                yield from leaves(item)
        case Entries():
            for _, value in node.entries.values():
                yield from leaves(value)


def refuse_control_characters(tree: Node, problems: Problems) -> None:
    """Refuse texts that no command line, file name or terminal should ever see."""
    for leaf in leaves(tree):
        if _CONTROL.search(leaf.text):
            problems.add("the text holds a control character", leaf.place, "take it out")


def decode(
    node: Node,
    kind: type[Record],
    problems: Problems,
    what: str,
    *,
    elsewhere: Mapping[str, Any] = MappingProxyType({}),
) -> Record | None:
    """Decode a mapping as a record; None when a key that it needs is missing or wrong.

    Every field is decoded by itself and a wrong one is left out after it was noted, so that one
    wrong entry does not hide another. `elsewhere` has the fields that are decoded by other means.
    """
    if not isinstance(node, Entries):
        problems.add(f"{what} must be a mapping", node.place)
        return None
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, (place, value) in node.entries.items():
        if name.startswith("x-") and what == TOP:
            continue
        if name not in known:
            problems.add(f"unknown key {name!r:.60}", place, nearest(name, known, noun="keys"))
        elif name in elsewhere:
            values[name] = elsewhere[name]
        else:
            decoded = _field(value, known[name].type, problems, name)
            if decoded is not UNSET and value.place not in problems.unreadable:
                values[name] = decoded
    needed = {name for name, field in known.items() if field.required}
    for name in sorted(needed - set(node.entries)):
        problems.add(f"{what} needs the key {name!r}", node.place)
    return kind(**values) if needed <= set(values) else None


def _field(node: Node, kind: Any, problems: Problems, name: str) -> Any:
    """Decode one value, UNSET where it is wrong; records and mappings of records go deeper."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        record = decode(node, kind, problems, name)
        return UNSET if record is None else record
    if get_origin(kind) is dict and isinstance(node, Entries):
        of = get_args(kind)[1]
        if of is str:
            return _texts(node, problems, name)
        if isinstance(of, type) and issubclass(of, msgspec.Struct):
            return {
                key: decode(value, of, problems, key) for key, (_, value) in node.entries.items()
            }
    return _convert(node, kind, problems, name)


def _texts(node: Entries, problems: Problems, name: str) -> dict[str, str]:
    """Texts of an environment, in which `4` and `"4"` are the same."""
    texts: dict[str, str] = {}
    for key, (place, value) in node.entries.items():
        if isinstance(value, Scalar) and (value.value is not None or not value.plain):
            texts[key] = value.text
        else:
            problems.add(f"{name}.{key} must be a text", place, 'nothing is written ""')
    return texts


def _convert(node: Node, kind: Any, problems: Problems, name: str) -> Any:
    try:
        return msgspec.convert(plain(node), kind)
    except (msgspec.ValidationError, OverflowError) as error:
        message, _, path = str(error).partition(" - at `$")
        at = _locate(node, path.rstrip("`"))
        choices = _choices(kind)
        if message.startswith("Invalid enum value") and isinstance(at, Scalar):
            hint = nearest(at.text, choices, noun="choices")
            problems.add(f"{name}: {at.text!r:.60} is none of the choices", at.place, hint)
        else:
            secret = is_secret_name(name)
            words = "expected a text" if secret else in_words(message, at)
            problems.add(f"{name}: {words}", at.place, None if secret else _advice(message, at))
        return UNSET


def _choices(kind: Any) -> list[str]:
    """Return the texts of every Literal in a type."""
    if get_origin(kind) is Literal:
        return [choice for choice in get_args(kind) if isinstance(choice, str)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _locate(node: Node, path: str) -> Node:
    for key, index in _STEP.findall(path):
        match node:
            case Entries() if key in node.entries:
                node = node.entries[key][1]
            case Items() if index and int(index) < len(node.items):
                node = node.items[int(index)]
            case _:
                break
    return node


def in_words(message: str, node: Node) -> str:
    """Reword msgspec's message for someone who wrote YAML, with the value that stands there."""

    def named(match: re.Match[str]) -> str:
        kinds = match[1].split(" | ")
        return " or ".join(_TYPE_NAMES.get(kind, kind) for kind in kinds)

    words = re.sub(r"`([^`]*)`", named, message)
    words = words[:1].lower() + words[1:]
    if isinstance(node, Scalar) and node.value is not None:
        words = re.sub(r", got .*", "", words) + f", not {node.value!r:.60}"
    return words


def _advice(message: str, node: Node) -> str | None:
    if isinstance(node, Scalar) and node.plain and "`str`" in message and node.text:
        return f'quote it: "{node.text[:60]}"'
    return None


def place_of(tree: Node, *steps: str | int) -> Place:
    """Return the place of an entry's value, or of the nearest entry above it that there is."""
    for step in steps:
        match tree:
            case Entries() if step in tree.entries:
                tree = tree.entries[str(step)][1]
            case Items() if isinstance(step, int) and step < len(tree.items):
                tree = tree.items[step]
            case _:
                break
    return tree.place


def key_place(tree: Node, *steps: str) -> Place:
    """Return the place of an entry's key, or of the nearest entry above it that there is."""
    place = tree.place
    for step in steps:
        if not isinstance(tree, Entries) or step not in tree.entries:
            break
        place, tree = tree.entries[step]
    return place


def scalar_at(tree: Node, *steps: str | int) -> Scalar | None:
    """Return the scalar that stands at a path, or None."""
    for step in steps:
        match tree:
            case Entries() if step in tree.entries:
                tree = tree.entries[str(step)][1]
            case Items() if isinstance(step, int) and step < len(tree.items):
                tree = tree.items[step]
            case _:
                return None
    return tree if isinstance(tree, Scalar) else None
