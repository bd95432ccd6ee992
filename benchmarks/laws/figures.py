"""What is counted over many answers, by the kind of question."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from benchmarks.laws.asked import Answer, Told, ask, many, share
from benchmarks.laws.cases import Case
from benchmarks.laws.recording import ARMS, Simulated, simulate
from specbench.analysis.pareto import BEST, Choice
from specbench.stats.launches import LaunchFloor

Figures = dict[str, float]


def floor_of(case: Case, random: np.random.Generator) -> LaunchFloor | None:
    """Draw what an earlier A/A comparison of the same host would have stored."""
    if case.floor is None:
        return None
    sd = case.law.restarts.sd * math.sqrt(random.chisquare(case.floor) / case.floor)
    return LaunchFloor(sd=sd, df=float(case.floor), source="simulated")


def answers(case: Case, count: int, seed: int, *, details: bool = False) -> list[Answer]:
    """Ask `count` times; a stored floor is drawn anew for each."""
    if case.floor is None:
        return many(case.design, case.law, count, seed, details=details)
    random = np.random.default_rng([seed, 999])
    return [
        answer
        for i in range(count)
        for answer in many(case.design, case.law, 1, seed + i, floor_of(case, random))
    ]


def equal(case: Case, count: int, seed: int) -> Figures:
    """Equal arms: false verdicts a cell and a family, coverage, the gate, what is withheld.

    A withheld cell says nothing: it counts among the verdicts, not among the intervals. Few
    requests a slot withhold small effects alone: the intervals of all those cells count, or only
    the largest errors would.
    """
    found = answers(case, count, seed)
    cells = [cell for answer in found for cell in answer.cells]
    judged = [cell for cell in cells if cell.withheld in {"", "few_requests"}]
    told = [t for cell in cells for t in (cell.these, cell.such)]
    return {
        "false, these": share([cell.these.wrong for cell in cells]),
        "false, such": share([cell.such.wrong for cell in cells]),
        "family": share([any(c.these.wrong or c.such.wrong for c in a.cells) for a in found]),
        "covers, these": share([cell.these.alone for cell in judged]),
        "covers, such": share([cell.such.alone for cell in judged]),
        "gate": share([answer.gate == "yes" and not _is_slow(answer) for answer in found]),
        "withheld": share([cell.withheld != "" for cell in cells]),
        "half-width": float(np.median([cell.such.width for cell in cells])),
        "agrees": share([t.agrees for t in told]),
    }


def _is_slow(answer: Answer) -> bool:
    """Whether a cell is truly slower than the gate allows: then it is no false alarm."""
    return any(cell.these.truth < math.log(0.97) for cell in answer.cells)


def faulty(case: Case, count: int, seed: int) -> Figures:
    """Requests fail on one arm: withheld, or at least never wrong."""
    cells = [cell for answer in answers(case, count, seed) for cell in answer.cells]
    return {
        "withheld": share([cell.withheld != "" for cell in cells]),
        "wrong": share([cell.these.wrong or cell.such.wrong for cell in cells]),
    }


def found_effects(case: Case, count: int, seed: int) -> Figures:
    """Power: how often the true direction, or that there is none, is said."""
    cells = [cell for answer in answers(case, count, seed) for cell in answer.cells]
    return {
        "found, these": share([cell.these.right for cell in cells]),
        "found, such": share([cell.such.right for cell in cells]),
        "alike, these": share([cell.these.alike for cell in cells]),
        "alike, such": share([cell.such.alike for cell in cells]),
        "wrong": share([cell.these.wrong or cell.such.wrong for cell in cells]),
    }


def pooled(case: Case, count: int, seed: int) -> Figures:
    """One answer over all cells."""
    found = answers(case, count, seed)

    def every(pick: Callable[[Answer], Told], what: str) -> float:
        return share([bool(getattr(pick(answer), what)) for answer in found])

    return {
        "wrong": share([a.pooled.wrong or a.pooled_such.wrong for a in found]),
        "right": every(lambda a: a.pooled, "right"),
        "covers, these": every(lambda a: a.pooled, "alone"),
        "covers, such": every(lambda a: a.pooled_such, "alone"),
        "covers, kind": every(lambda a: a.kind, "alone"),
        "mixed": share([answer.verdict == "mixed" for answer in found]),
        "half-width": float(np.median([answer.pooled.width for answer in found])),
    }


def _changes(case: Case) -> list[tuple[int, int]]:
    """Neighbouring concurrencies between which the true effect changes its sign."""
    gains = case.law.gains or {}
    known = sorted((c, gains.get(c, case.law.gain)) for c in case.design.concurrency)
    return [(a, b) for (a, one), (b, two) in pairwise(known) if one * two < 0]


def crossings(case: Case, count: int, seed: int) -> Figures:
    """Stated crossings: how often, and whether they hold a true one."""
    stated, wrong = [], []
    truth = _changes(case)
    for answer in answers(case, count, seed, details=True):
        said = [one.between for one in answer.whole.crossovers if one.between is not None]
        stated.append(bool(said))
        wrong += [not any(a <= lo and hi <= b for lo, hi in truth) for a, b in said]
    held = 100 - share(wrong) if wrong else math.nan
    return {"stated": share(stated), "wrong": 100 * sum(wrong) / max(1, count), "covers": held}


MOST_LAUNCHES = 30
"""Advice beyond this is not followed here: nobody would."""


def advice(case: Case, count: int, seed: int) -> Figures:
    """Follow "N launches would decide": is it decided then?"""
    right: list[bool] = []
    needed: list[float] = []
    for i, answer in enumerate(answers(case, count, seed)):
        for cell in answer.cells:
            undecided = cell.these.verdict == "inconclusive"
            if not undecided or cell.needed is None or cell.needed > MOST_LAUNCHES:
                continue
            design = replace(case.design, launches=cell.needed)
            (again,) = many(design, case.law, 1, seed + 7919 * (i + 1))
            one = next(c for c in again.cells if c.key == cell.key)
            needed.append(cell.needed)
            right.append(one.these.verdict != "inconclusive" and not one.these.wrong)
            break
    return {
        "advised": 100 * len(right) / max(1, count),
        "launches": float(np.median(needed)) if needed else math.nan,
        "right": share(right),
    }


def best(case: Case, count: int, seed: int) -> Figures:
    """A configuration that is called best with 0.9 or more: how often it is."""
    said: list[float] = []
    true: list[bool] = []
    for i in range(count):
        seen = simulate(case.design, case.law, np.random.default_rng([seed, i]))
        for choice in ask(seen, details=True).whole.ranking:
            if choice.p_best is not None and choice.p_best >= BEST:
                said.append(choice.p_best)
                true.append(_is_best(choice, seen))
    bold = 100 * float(np.mean(said)) - share(true) if said else math.nan
    return {"stated": 100 * len(said) / max(1, count), "true": share(true), "bold": bold}


def _is_best(choice: Choice, seen: Simulated) -> bool:
    """Whether no other server is truly faster at this load."""
    temperature = float(str(choice.load["temperature"]))
    concurrency = int(str(choice.load["concurrency"]))

    def speed(arm: str, budget: int) -> float:
        gain = seen.gains[budget, temperature, concurrency] if arm == ARMS[1] else 0.0
        return seen.budgets[budget] + gain

    named = str(choice.configuration["algorithm"]), int(str(choice.configuration["budget"]))
    return speed(*named) >= max(speed(arm, budget) for arm in ARMS for budget in seen.budgets)


def misses(figures: Figures, case: Case, slack: float) -> list[str]:
    """Name the figures beyond their bar by more than `slack` standard errors."""
    out = []
    for name, (least, most) in case.limits.items():
        value = figures.get(name, math.nan)
        if math.isnan(value):
            continue
        if not least - slack <= value <= most + slack:
            out.append(f"{name} {value:.1f} is not in {least:g} to {most:g}")
    return out
