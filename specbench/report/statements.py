"""Sentences of a report, each with what it rests on; how they are grouped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["claim", "violated", "fact", "withheld", "flag", "failure"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One generated sentence.

    `kind`: a *claim* has an interval and n; a *fact* is a count or a setting; *violated* is
    a claim against losslessness; *withheld* says
    what cannot be claimed and why; a *flag* says where a reader should be careful; a *failure*
    tells what broke.
    `rows` are the cell_ids and trial_ids that it was made from; a reader can follow them.
    `details` are lines from elsewhere (a log, a command), shown verbatim and always escaped.
    `command` makes the sentence again from the recording.
    """

    kind: Kind
    text: str
    rows: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a section: heads with units, rows of cells as they are shown.

    `keys`, where given, are the row identifiers that statements point to. `groups` name the cell
    that each row belongs to; equal ones stand together. `leads` says that each key leads to the
    rows of its group in another table.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str
    keys: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    leads: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a report, in reading order; `plots` are names of pictures shown in it.

    With `lead` the first picture stands before the sentences: it shows them all at one glance.
    `short` is what a reader gets of a folded section; without it the section stands open. `front`
    counts the tables that stand before the fold.
    """

    anchor: str
    title: str
    statements: tuple[Statement, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[str, ...] = ()
    intro: str = ""
    lead: bool = False
    short: str = ""
    front: int = 0


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that a report says, before it has a format."""

    title: str
    created_at: str
    sections: tuple[Section, ...] = field(default=())

    def statements(self) -> list[Statement]:
        """Give all statements in reading order."""
        return [one for section in self.sections for one in section.statements]

    def text(self) -> str:
        """Give all sentences as plain text."""
        return "\n".join(one.text for one in self.statements())


def listed(names: Sequence[str], *, most: int = 6) -> str:
    """Join names for a sentence, saying how many were left out; names with commas by semicolons."""
    shown = ("; " if any(", " in name for name in names) else ", ").join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun: `1 trial`, `3 trials`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
