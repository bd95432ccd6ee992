"""Factors and their levels: names, types by factor, no level twice, no level that is a trap."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from specbench.config.document import Entries, Items, Node, Place, Problems, Scalar
from specbench.config.records import in_words
from specbench.model.columns import BY_NAME
from specbench.model.load import Count
from specbench.model.matrix import (
    LOAD_FACTORS,
    REQUEST_FACTORS,
    Level,
    Rate,
    WorkloadOptions,
)

MOST_FACTORS = 60
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_WORDS_OF_EXPRESSIONS = frozenset(
    ("and", "or", "not", "in", "true", "false", "none", "null", "True", "False", "None")
)
RESERVED = frozenset(BY_NAME) | {"kind", "seed", "name", "model"}
"""Names that mean something else in the results."""

FACTOR_TYPES: dict[str, Any] = {
    field.name: field.type
    for field in msgspec.structs.fields(WorkloadOptions)
    if field.name in REQUEST_FACTORS
}
FACTOR_TYPES["concurrency"] = Count
FACTOR_TYPES["rate"] = Rate
FACTOR_TYPES["algorithm"] = str

Factors = dict[str, tuple[Level, ...]]


def decode_factors(tree: Entries, problems: Problems) -> Factors:
    """Decode `factors`; wrong ones are noted in `problems` and left out."""
    if "factors" not in tree.entries:
        return {}
    place, node = tree.entries["factors"]
    if not isinstance(node, Entries):
        problems.add("factors must be a mapping: factor: [levels]", node.place)
        return {}
    if len(node.entries) > MOST_FACTORS:
        problems.add(f"more than {MOST_FACTORS} factors", place)
        return {}
    factors: Factors = {}
    for name, (at, value) in node.entries.items():
        _check_name(name, at, problems)
        levels = tuple(_levels(name, value, problems))
        if not levels and isinstance(value, Items) and not value.items:
            problems.add(f"factor {name!r} has no levels", value.place, "list at least one")
        factors[name] = levels
    if "algorithm" not in factors:
        problems.add("factors needs `algorithm`", place, "algorithm: [ar, dflash]")
    return factors


def _check_name(name: str, place: Place, problems: Problems) -> None:
    if not _NAME.fullmatch(name) or name in _WORDS_OF_EXPRESSIONS:
        hint = f"did you mean {re.sub(r'[^A-Za-z0-9_]', '_', name)!r}?" if name else None
        problems.add(f"{name!r:.60} cannot be a factor: letters, digits and _", place, hint)
    elif name in RESERVED:
        problems.add(f"{name!r} is a column of the results, not a factor", place, "rename it")


def _levels(name: str, node: Node, problems: Problems) -> Iterable[Level]:
    scalars: tuple[Node, ...] = node.items if isinstance(node, Items) else (node,)
    seen: list[Level] = []
    for scalar in scalars:
        if not isinstance(scalar, Scalar):
            problems.add(f"{name}: a level is a text, a number, true, false or null", scalar.place)
            continue
        value = _level(name, scalar, problems)
        if value in seen:
            problems.add(f"{name}: the level {value!r} stands here twice", scalar.place)
        else:
            seen.append(value)
            yield value


def _level(name: str, scalar: Scalar, problems: Problems) -> Level:
    value = scalar.value
    if scalar.plain and isinstance(value, str) and value.lower() == "none":
        hint = 'write null, or quote it: "none"'
        problems.add_unreadable(f"{name}: {value} would be a text", scalar.place, hint)
    if name not in FACTOR_TYPES:
        return value
    if value is None and name in LOAD_FACTORS:
        return None
    try:
        level: Level = msgspec.convert(value, FACTOR_TYPES[name])
    except msgspec.ValidationError as error:
        problems.add(f"{name}: {in_words(str(error), scalar)}", scalar.place)
        return value
    return level


def decode_include(
    tree: Entries, problems: Problems
) -> tuple[tuple[Factors, ...], tuple[str, ...]]:
    """Split `include` into cells to add and expressions of which one must hold."""
    node = tree.entries["include"][1] if "include" in tree.entries else None
    cells: list[Factors] = []
    expressions: list[str] = []
    if node is not None and not isinstance(node, Items):
        problems.add("include must be a list", node.place)
    for item in node.items if isinstance(node, Items) else ():
        match item:
            case Scalar() if isinstance(item.value, str):
                expressions.append(item.text)
            case Entries():
                cells.append(
                    {
                        name: tuple(_levels(name, value, problems))
                        for name, (_, value) in item.entries.items()
                    }
                )
            case _:
                what = "include takes mappings (cells to add) and expressions (one must hold)"
                problems.add(what, item.place)
    return tuple(cells), tuple(expressions)
