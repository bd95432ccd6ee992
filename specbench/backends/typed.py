"""Values of a server's answers, as the type they should have; None where they have another."""

from collections.abc import Mapping
from typing import Any


def text(value: object) -> str | None:
    """Return a text that is not empty."""
    return value if isinstance(value, str) and value else None


def number(value: object) -> int | None:
    """Return a whole number; a switch is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def figure(value: object) -> float | None:
    """Return a number of any kind."""
    return float(value) if isinstance(value, int | float) else None


def switch(value: object) -> bool | None:
    """Return true or false."""
    return value if isinstance(value, bool) else None


def opposite(value: object) -> bool | None:
    """Return the contrary of a switch."""
    return not value if isinstance(value, bool) else None


def part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of an answer; an empty one where it is missing or no object."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def sizes(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Return the parallel sizes that are said, by factor."""
    said = {factor: number(document.get(name)) for factor, name in names.items()}
    return {factor: size for factor, size in said.items() if size is not None}
