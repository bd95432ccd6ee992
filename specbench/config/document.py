"""YAML text to a tree of values that know their places; everything YAML allows and we refuse.

The reading is YAML 1.2's core schema, so that `no`, `on`, `1e3` or `010` are never something else
than they look. Anchors and merge keys work; duplicate keys, tags, several documents, alias bombs,
deep nesting and huge files are refused with file:line:column.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from specbench.config.scalars import Unreadable, read_scalar
from specbench.errors import InputError, InputErrors
from specbench.model.matrix import Level

LARGEST_FILE = 2**20
DEEPEST = 40
MOST_VALUES = 20_000

_SCALAR_TAGS = ("tag:yaml.org,2002:str", "!")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, for people: lines and columns from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"

    def right(self, characters: int) -> "Place":
        """Return the place that many characters further on the same line."""
        return Place(self.path, self.line, self.column + characters)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value; `exact` says that its text stands in the file as it is, `quote` long quote."""

    place: Place
    value: Level
    text: str
    plain: bool
    exact: bool

    def at(self, offset: int) -> Place:
        """Return the place of a character of the text, as near as it can be told."""
        if not self.exact:
            return self.place
        return self.place.right(offset + (0 if self.plain else 1))


@dataclass(frozen=True, slots=True)
class Items:
    """A YAML sequence."""

    place: Place
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """A YAML mapping: name -> (place of the key, value)."""

    place: Place
    entries: dict[str, tuple[Place, "Node"]]


Node = Scalar | Items | Entries


MOST_ERRORS = 50


@dataclass(slots=True)
class Problems:
    """Collects errors, each once (an alias repeats its own), so that one reading reports all.

    Of a value that cannot be read nothing else is said: its other errors would only follow.
    """

    found: dict[tuple[Place, str], str | None] = field(default_factory=dict)
    unreadable: set[Place] = field(default_factory=set)

    def add(self, what: str, place: Place, hint: str | None = None) -> None:
        """Note an error of the user at a place."""
        if place not in self.unreadable:
            self.found.setdefault((place, what), hint)

    def add_unreadable(self, what: str, place: Place, hint: str) -> None:
        """Note that a value has no meaning at all."""
        self.add(what, place, hint)
        self.unreadable.add(place)

    def raise_any(self) -> None:
        """Raise what was found, in the order of the file: one error as itself, several together."""
        in_order = sorted(self.found.items(), key=lambda item: (item[0][0].line, item[0][0].column))
        errors = [InputError(what, where=str(at), hint=h) for (at, what), h in in_order]
        if len(errors) > MOST_ERRORS:
            more = f"and {len(errors) - MOST_ERRORS} more errors"
            errors = [*errors[:MOST_ERRORS], InputError(more)]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise InputErrors(errors)


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file of bounded size.

    Raises:
        InputError: when it is missing, unreadable, too large or not UTF-8 (with the place).
    """
    shown = str(path)
    try:
        with Path(path).open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError as error:
        raise InputError("no such file", where=shown) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=shown) from error
    if len(raw) > LARGEST_FILE:
        raise InputError(f"the file is larger than {LARGEST_FILE // 2**20} MiB", where=shown)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        place = Place(shown, before.count(b"\n") + 1, column)
        hint = "save the file as UTF-8"
        raise InputError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8", where=str(place), hint=hint
        ) from error


def parse_document(text: str, path: str, problems: Problems) -> Entries | None:
    """Parse one YAML document whose top is a mapping; None when `problems` says why not.

    Raises:
        InputError: when the text is not YAML, or breaks a bound.
    """
    try:
        _check_bounds(text, path)
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, path) from error
    except yaml.reader.ReaderError as error:
        raise _bad_character(error, text, path) from error
    if root is None:
        problems.add("the file is empty", Place(path, 1, 1))
        return None
    tree = _Converter(path, problems).convert(root, 0)
    if not isinstance(tree, Entries):
        problems.add("the file must be a mapping (key: value)", Place(path, 1, 1))
        return None
    return tree


def _check_bounds(text: str, path: str) -> None:
    """Walk the events, which need no recursion, before the composer, which does."""
    depth = 0
    documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.BaseLoader)):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if documents > 1:
            place = _place(event.start_mark, path)
            raise InputError("one document is expected, a second begins", where=str(place))
        if count > 2 * MOST_VALUES:
            place = _place(event.start_mark, path)
            raise InputError(f"more than {MOST_VALUES} values", where=str(place))
        if depth > DEEPEST:
            place = _place(event.start_mark, path)
            raise InputError(f"nested more than {DEEPEST} levels deep", where=str(place))


def _place(mark: Any, path: str) -> Place:
    """Take a place from a mark of PyYAML, which counts from 0."""
    return Place(path, mark.line + 1, mark.column + 1) if mark else Place(path, 1, 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, path: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    place = _place(mark, path)
    what = error.problem or error.context or "not YAML"
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    hint = error.context if error.context != what else None
    if "'\\t'" in what or line[: place.column].strip(" ").startswith("\t"):
        what, hint = "a tab cannot indent YAML", "indent with spaces"
    elif "undefined alias" in what:
        hint = "define the anchor (&name) above the alias (*name)"
    return InputError(what, where=str(place), hint=hint)


def _bad_character(error: yaml.reader.ReaderError, text: str, path: str) -> InputError:
    before = text[: error.position]
    place = Place(path, before.count("\n") + 1, len(before) - before.rfind("\n"))
    code = error.character if isinstance(error.character, int) else ord(error.character)
    return InputError(f"the character U+{code:04X} is not allowed in YAML", where=str(place))


class _Converter:
    """Composed nodes to our tree, within a bound on what aliases may expand to."""

    def __init__(self, path: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self.values = 0

    def convert(self, node: yaml.Node, depth: int) -> Node:
        place = _place(node.start_mark, self.path)
        self.values += 1
        if self.values > MOST_VALUES:
            raise InputError(f"more than {MOST_VALUES} values, aliases expanded", where=str(place))
        if depth > DEEPEST:
            raise InputError("an alias contains itself, or is nested too deeply", where=str(place))
        kinds: dict[type[yaml.Node], str] = {yaml.SequenceNode: "seq", yaml.MappingNode: "map"}
        kind = kinds.get(type(node), "str")
        if node.tag not in (*_SCALAR_TAGS, f"tag:yaml.org,2002:{kind}"):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.problems.add(f"the tag {tag} is not allowed", place, "write the value plainly")
        match node:
            case yaml.MappingNode():
                return Entries(place, self.entries(node, depth))
            case yaml.SequenceNode():
                return Items(place, tuple(self.convert(item, depth + 1) for item in node.value))
            case yaml.ScalarNode():
                return self.scalar(node, place)
            case _:
                raise InputError("not a value", where=str(place))

    def scalar(self, node: yaml.ScalarNode, place: Place) -> Scalar:
        plain = node.style is None
        text = str(node.value)
        one_line = node.start_mark.line == node.end_mark.line
        width = node.end_mark.column - node.start_mark.column
        exact = one_line and width == len(text) + (0 if plain else 2)
        value: Level = text
        if plain:
            try:
                value = read_scalar(text)
            except Unreadable as error:
                self.problems.add_unreadable(str(error), place, error.hint)
        return Scalar(place, value, text, plain, exact)

    def entries(self, node: yaml.MappingNode, depth: int) -> dict[str, tuple[Place, Node]]:
        own: dict[str, tuple[Place, Node]] = {}
        merged: dict[str, tuple[Place, Node]] = {}
        for key, value in node.value:
            place = _place(key.start_mark, self.path)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.add("a key must be a name", place)
            elif key.value == "<<" and key.style is None:
                for source in self.merge_sources(value, depth):
                    merged = {**source.entries, **merged}
            elif key.value in own:
                first = own[key.value][0]
                self.problems.add(
                    f"{key.value!r} stands here twice", place, f"the first is at {first}"
                )
            else:
                own[key.value] = (place, self.convert(value, depth + 1))
        return {**merged, **own} if merged else own

    def merge_sources(self, node: yaml.Node, depth: int) -> Iterator[Entries]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            source = self.convert(part, depth + 1)
            if isinstance(source, Entries):
                yield source
            else:
                self.problems.add("<< merges mappings only", source.place, "write <<: *anchor")
