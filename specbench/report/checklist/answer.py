"""One answer of the reviewer's checklist, and the questions that several checks ask."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from specbench.report import flags
from specbench.report.cells import flags_of
from specbench.report.inputs import Evidence
from specbench.report.speedups import SpeedUp
from specbench.report.statements import count

State = Literal["excluded", "found", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the checks look at: the evidence, and each comparison that a report makes from it."""

    evidence: Evidence
    pairs: list[SpeedUp]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Whether a known mistake was made: `how` says what was looked at, `rows` where it shows.

    `excluded` is only said after a look at evidence; without evidence it is `cannot tell`.
    """

    state: State
    how: str
    rows: tuple[str, ...] = ()


def excluded(how: str) -> Answer:
    """Say how the mistake was ruled out."""
    return Answer(state="excluded", how=how)


def found(how: str, rows: Iterable[str] = ()) -> Answer:
    """Say where the mistake shows."""
    return Answer(state="found", how=how, rows=tuple(rows))


def unknown(how: str) -> Answer:
    """Say which evidence is missing."""
    return Answer(state="cannot tell", how=how)


def flagged(evidence: Evidence, pitfall: str, *also: str) -> dict[str, list[str]]:
    """Collect raised flags that guard one mistake: flag -> trial_ids."""
    names = flags.with_pitfall(pitfall) | set(also)
    return {name: rows for name in sorted(names) if (rows := trials_with(evidence.trials, name))}


def trials_with(trials: pd.DataFrame, name: str) -> list[str]:
    """List the trials on which a flag was raised."""
    marked = [name in flags_of([value]) for value in trials["flags"]]
    return [str(value) for value in trials["trial_id"][marked]]


def ids(trials: pd.DataFrame) -> list[str]:
    """List the trial_ids of a table."""
    return [str(value) for value in trials["trial_id"]]


def by_flags(evidence: Evidence, pitfall: str, *, else_: Answer) -> Answer:
    """Answer by flags alone: found where one was raised, else the given answer."""
    raised = flagged(evidence, pitfall)
    if not raised:
        return else_
    said = "; ".join(
        f"`{name}` on {count(len(rows), 'trial')}: {flags.explain(name)}"
        for name, rows in raised.items()
    )
    return found(said, [row for rows in raised.values() for row in rows])
