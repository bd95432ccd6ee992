"""Read documents of other tools: every fault of a file is one sentence that names it."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from specbench.errors import InputError
from specbench.interchange.definitions import UNKNOWN
from specbench.interchange.rows import Figure, ImportedRow, Level
from specbench.model.json_text import why_not

LARGEST_BYTES = 1 << 30


class Field(NamedTuple):
    """How a number of a tool becomes one of ours; `scale` turns its unit into ours."""

    original: str
    column: str = ""
    definition: str = UNKNOWN
    scale: float = 1.0


def latency_fields(
    original: str,
    latencies: Mapping[str, tuple[str, str]],
    statistics: Mapping[str, str],
    scale: float = 1.0,
) -> tuple[Field, ...]:
    """Give a field for each statistic of each latency.

    `original` is the tool's name for one, with {name} and {statistic} in it. `latencies` maps a
    tool's name to our quantity ("" for none) and its definition, `statistics` to our suffix.
    """
    return tuple(
        Field(
            original.format(name=name, statistic=statistic),
            f"{quantity}_{ours}" if quantity else "",
            definition,
            scale,
        )
        for name, (quantity, definition) in latencies.items()
        for statistic, ours in statistics.items()
    )


def text_of(path: Path) -> str:
    """Read a text file. Raises InputError when it is missing, empty, huge or not UTF-8."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError("the file is larger than 1 GiB: no result file", where=str(path))
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", where=str(path)) from None
    if not text.strip():
        raise InputError("the file is empty", where=str(path))
    return text


def documents_of(path: Path) -> list[Any]:
    """Read JSON (one document), JSON lines (one a line) or YAML. Raises InputError."""
    text = text_of(path)
    if path.suffix in (".yaml", ".yml"):
        return [_yaml(text, path)]
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError) as error:
        first = text.lstrip().splitlines()[0]
        if not _is_document(first) or len(text.strip().splitlines()) == 1:
            raise InputError(
                f"the file is no JSON, or was cut off: {why_not(error)}", where=str(path)
            ) from None
    return _lines(text, path)


def _is_document(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(text: str, path: Path) -> list[Any]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"the line is no JSON, or was cut off: {why_not(error)}", where=f"{path}:{number}"
            ) from None
    return found


def _yaml(text: str, path: Path) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        told = " ".join(str(error).split()) or "it is nested too deeply"
        raise InputError(f"the file is no YAML: {told}", where=str(path)) from None


def at(document: Any, dotted: str) -> Any:
    """Follow `a.b.c` through mappings; None where a part is missing."""
    for part in dotted.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(part)
    return document


def figures_of(document: Any, fields: Iterable[Field], where: str) -> tuple[Figure, ...]:
    """Take the numbers that a document has; null and NaN are no measurement.

    Raises InputError when a field that should be a number holds something else.
    """
    found = []
    for original, column, definition, scale in fields:
        value = number(at(document, original), original, where)
        if value is not None:
            found.append(
                Figure(
                    original=original,
                    value=value * scale,
                    column=column,
                    definition=definition,
                    scale=scale,
                )
            )
    return tuple(found)


def number(value: Any, name: str, where: str) -> float | None:
    """Take a number, or None where there is none. Raises InputError when it is something else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"`{name}` is no number: {str(value)[:60]!r}", where=where)
    try:
        given = float(value)
    except OverflowError:
        return None
    return given if math.isfinite(given) else None


def levels_of(document: Any, names: Mapping[str, str]) -> dict[str, Level]:
    """Take what was asked: our factor name → the tool's dotted name; `inf` is said as a word."""
    found: dict[str, Level] = {}
    for factor, dotted in names.items():
        value = at(document, dotted)
        if isinstance(value, float) and not math.isfinite(value):
            found[factor] = "inf"
        elif isinstance(value, str | int | float | bool) and value != "":
            found[factor] = value
    return found


def written_by_us(document: Any) -> bool:
    """Whether `specbench export` wrote a document: its figures have our definitions."""
    return bool(at(document, "definitions") == "specbench")


def as_ours(
    row: ImportedRow, document: Any, factors: str, columns: Mapping[str, str]
) -> ImportedRow:
    """Give a row that `specbench export` wrote its own factors and definitions back.

    `factors` is where they stand; `columns` names those that the
    tool's own importer puts elsewhere.
    """
    figures = tuple(
        msgspec.structs.replace(
            figure,
            column=columns.get(figure.original, figure.column),
            definition="count" if figure.definition == "count" else "specbench",
        )
        for figure in row.figures
    )
    given = at(document, factors)
    names = {name: name for name in given} if isinstance(given, dict) else {}
    return msgspec.structs.replace(
        row,
        tool="specbench",
        version=str(at(document, "producer") or "").removeprefix("specbench "),
        levels=levels_of(given, names),
        figures=figures,
    )


def mapping(value: Any, name: str, where: str) -> dict[str, Any]:
    """Take a JSON object. Raises InputError when it is something else."""
    if not isinstance(value, dict):
        raise InputError(f"`{name}` is no JSON object", where=where)
    return value


def listing(value: Any, name: str, where: str) -> list[Any]:
    """Take a JSON list. Raises InputError when it is something else."""
    if not isinstance(value, list):
        raise InputError(f"`{name}` is no JSON list", where=where)
    return value


def too_new(what: str, found: object, read: str, where: str) -> InputError:
    """Say that a newer tool wrote the file."""
    return InputError(
        f"{what} {found} is not known here; this specbench reads {read}",
        where=where,
        hint="upgrade specbench, or export from the tool in the older format",
    )
