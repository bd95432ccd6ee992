"""Imported rows: one a measured run of another tool, each figure with where it comes from."""

import msgspec

from specbench.interchange.definitions import DEFINITIONS, UNKNOWN

Level = str | int | float | bool


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number: `column` is ours (empty where we have none), `original` the tool's own name.

    `value` is in the unit of `column`, where the tool's own unit was another one: `scale` is what
    its number was multiplied by.
    """

    original: str
    value: float
    column: str = ""
    definition: str = UNKNOWN
    scale: float = 1.0


class ImportedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run: who measured it with which version, what was asked, and its figures."""

    tool: str
    version: str = ""
    path: str
    levels: dict[str, Level] = {}
    figures: tuple[Figure, ...] = ()

    def figure(self, column: str) -> Figure | None:
        """Give the figure of one of our columns."""
        return next((one for one in self.figures if one.column == column), None)


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """`imported.json`: rows of any number of files."""

    schema: int
    rows: tuple[ImportedRow, ...]


SCHEMA = 1


def may_stand_together(a: Figure, b: Figure) -> str:
    """Say in a sentence why two figures of a column cannot be compared; empty where they can."""
    if a.definition == b.definition and (a.definition != UNKNOWN or a.original == b.original):
        return ""
    strange = [one for one in (a, b) if not DEFINITIONS[one.definition].ours]
    if not strange:
        return ""
    return "; ".join(
        f"`{one.original}` is `{one.definition}` ({DEFINITIONS[one.definition].meaning})"
        for one in strange
    )
