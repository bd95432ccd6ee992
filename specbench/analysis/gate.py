"""What may be claimed of a row at all: flags that withhold, lossless verdicts, --fail-if."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import pandas as pd

from specbench.errors import InputError, nearest

Lossless = Literal["holds", "violated", "inconclusive", "untested", "control"]
Answer = Literal["yes", "no", "unknown"]

WITHHOLDS = {
    "client_saturated": "the client was the bottleneck",
    "clock_step": "a clock was set during the trial",
    "args_mismatch": "the server did not run with the arguments asked for",
    "wrong_model": "the server held another model",
    "simulated_acceptance": "accept_len was an input, not a result",
    "forced_greedy": "the temperature was ignored",
    "greedy_fallback": "the temperature was ignored",
    "lossy_thresholds": "tokens were accepted that the target would not have drawn",
    "server_capped_concurrency": "the server ran fewer requests at once than were sent",
    "accept_counters_mismatch": "the server's acceptance counters do not add up",
    "counts_in_doubt": "counts contradict each other",
    "thermal": "the GPU was throttled",
    "interrupted": "the trial was interrupted",
}
"""Flags under which a row supports no verdict; other flags are carried as caveats."""


def flags_of(trials: pd.DataFrame) -> tuple[str, ...]:
    """Collect the distinct flags of some trials, in order of appearance."""
    found = (str(text).split(",") for text in trials["flags"].tolist() if isinstance(text, str))
    return tuple(dict.fromkeys(flag.strip() for flags in found for flag in flags if flag.strip()))


def lossless_gate(trials: pd.DataFrame) -> Lossless:
    """Give one arm's losslessness: the worst verdict of its rows.

    `control` where the question does not apply (the rows say nothing: plain decoding).
    """
    names = {
        str(value) for value in trials["lossless"].tolist() if isinstance(value, str) and value
    }
    order: tuple[Lossless, ...] = ("violated", "inconclusive", "untested", "holds")
    return next((name for name in order if name in names), "control")


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a figure: it lies in [low, high]."""

    low: float
    high: float


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on figures, `speedup < 0.97 or accept_len_ratio < 0.9`, as clauses of terms.

    `clauses` are joined by or, the terms of each by and; a term is (name, operator, number).
    """

    text: str
    clauses: tuple[tuple[tuple[str, str, float], ...], ...]


_TERM = re.compile(
    r"\s*([a-z_][a-z0-9_]*)\s*(<=|>=|<|>)\s*([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*"
)

FIGURES = (
    "speedup", "speedup_such", "ratio", "accept_len_ratio", "step_rate_ratio", "remainder_ratio",
)  # fmt: skip
"""What a condition may name; all are b over a. `ratio` is of the metric compared, `speedup` the
same where more is faster and its inverse for times; `_such` is for such workloads."""


def condition(text: str, known: Sequence[str] = FIGURES) -> Condition:
    """Read a condition.

    Raises:
        InputError: it is none, or names an unknown figure (with the nearest one).
    """
    clauses = []
    for clause in re.split(r"\bor\b", text):
        terms = []
        for part in re.split(r"\band\b", clause):
            found = _TERM.fullmatch(part)
            if found is None:
                raise InputError(
                    f"not a condition: {text!r}",
                    hint="write for example: speedup < 0.97 or accept_len_ratio < 0.95",
                )
            name, operator, number = found.groups()
            if name not in known:
                raise InputError(f"no figure {name!r}", hint=nearest(name, known, noun="figures"))
            terms.append((name, operator, float(number)))
        clauses.append(tuple(terms))
    return Condition(text=text, clauses=tuple(clauses))


def judge(condition: Condition, figures: Mapping[str, Range | None]) -> Answer:
    """Decide a condition over intervals, in Kleene's three-valued logic.

    `yes` and `no` are said only where the whole interval agrees; a figure that was not measured,
    or whose interval spans the number, is `unknown`.
    """
    answers = [
        _all_of([_term(figures.get(name), op, number) for name, op, number in clause])
        for clause in condition.clauses
    ]
    if "yes" in answers:
        return "yes"
    return "unknown" if "unknown" in answers else "no"


def _all_of(answers: Sequence[Answer]) -> Answer:
    if "no" in answers:
        return "no"
    return "unknown" if "unknown" in answers else "yes"


def _term(figure: Range | None, operator: str, number: float) -> Answer:
    if figure is None:
        return "unknown"
    below = {"<": figure.high < number, "<=": figure.high <= number}
    above = {">": figure.low > number, ">=": figure.low >= number}
    never_below = {"<": figure.low >= number, "<=": figure.low > number}
    never_above = {">": figure.high <= number, ">=": figure.high < number}
    if (below | above)[operator]:
        return "yes"
    return "no" if (never_below | never_above)[operator] else "unknown"
