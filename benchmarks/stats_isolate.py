"""How often `isolate` is right, wrong or open, and in how many launches, by simulation.

    python benchmarks/stats_isolate.py [--runs 300] [--json]

Each run draws a cause at random. A bad server passes each probe with the flakiness of the row, and
in the last rows a whole launch of it comes up sound. Launches count the first one of the bad
server. Exits with status 1 if single, pair and triple causes are right in less than 98 % with exact
probes, if more than 2 % are confidently wrong at any flakiness of a probe, or if the median for
pairs of eight factors is above 10 launches.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from specbench.planning.causes import Configuration
from specbench.planning.isolate import Search
from specbench.planning.probe_noise import Counts
from specbench.planning.search_start import start
from specbench.planning.search_terms import Answer, Candidate, Options

NAMES = "abcdefgh"
KNOWN = ("single", "pair", "triple")
LEAST_RIGHT, MOST_WRONG, MOST_LAUNCHES = 0.98, 0.02, 10

Law = Callable[[Configuration], bool]


@dataclass(frozen=True)
class Truth:
    """A cause: which configurations fail, and the sets that a right answer names.

    `cure` is what a full answer names besides; `nameless` causes have no right answer but "open".
    """

    fails: Law
    sets: frozenset[Configuration]
    cure: tuple[str, str] | None = None
    nameless: bool = False

    def is_named_by(self, answer: Answer) -> bool:
        """Whether it is right; what alone fails is right without its cure, for all said is true."""
        top = answer.suspects[0]
        same = {frozenset(one) for one in top.sets} == self.sets
        return same and not self.nameless and top.cure in (None, self.cure)


@dataclass(frozen=True)
class Row:
    factors: int
    cause: str
    flaky_probe: float
    flaky_launch: float
    right: float
    wrong: float
    open: float
    launches: float
    launches_p90: float
    launches_max: int


def sets(*members: str) -> Truth:
    """Build a cause of sets, each of which is enough: "ab", "c" is A with B, or C."""
    each = frozenset(frozenset(one) for one in members)
    return Truth(fails=lambda chosen: any(one <= chosen for one in each), sets=each)


def cured(one: str, curing: str, undoing: str) -> Truth:
    """Build a cause that a second factor cures, unless a third one is bad too."""
    return Truth(
        fails=lambda chosen: one in chosen and not (curing in chosen and undoing not in chosen),
        sets=frozenset([frozenset(one)]),
        cure=(curing, undoing),
    )


def nameless(*members: str) -> Truth:
    """Build a cause that is none of the hypotheses."""
    known = sets(*members)
    return Truth(fails=known.fails, sets=known.sets, nameless=True)


CAUSES: dict[str, Callable[[list[str]], Truth]] = {
    "single": lambda n: sets(n[0]),
    "pair": lambda n: sets(n[0] + n[1]),
    "triple": lambda n: sets(n[0] + n[1] + n[2]),
    "four factors": lambda n: sets("".join(n[:4])),
    "A or B": lambda n: sets(n[0], n[1]),
    "A or (B and C)": lambda n: sets(n[0], n[1] + n[2]),
    "(A and B) or (C and D)": lambda n: sets(n[0] + n[1], n[2] + n[3]),
    "A unless (B without C)": lambda n: cured(n[0], n[1], n[2]),
    "A and (B or C): no hypothesis": lambda n: nameless(n[0] + n[1], n[0] + n[2]),
    "five factors: no hypothesis": lambda n: nameless("".join(n[:5])),
}


TABLE = [
    *((k, cause, probe, 0.0) for k in (6, 8) for cause in CAUSES for probe in (0.0, 0.3, 0.5)),
    *((6, cause, 0.0, miss) for cause in ("single", "pair", "A or B") for miss in (0.2, 0.5)),
]
"""Factors, cause, how often a bad server passes a probe, how often a launch of it is sound."""


@cache
def fresh(factors: int) -> Search:
    """Set up the search that every run begins with."""
    return start([Candidate(name=n, good=0, bad=1) for n in NAMES[:factors]], Options())


def launch(
    random: np.random.Generator, search: Search, *, fails: bool, probe: float, miss: float
) -> Counts:
    """Ask the probes of one launch, as many as the search wants."""
    bad = fails and random.random() >= miss
    counts = Counts()
    while not search.enough(counts):
        counts = counts.and_one(fails=bad and bool(random.random() >= probe))
    return counts


def first_launch(random: np.random.Generator, probes: int, probe: float) -> Counts:
    """Ask all probes of the bad server; one that passes them all is not searched."""
    while not (failed := int(random.binomial(probes, 1 - probe))):
        pass
    return Counts(asked=probes, failed=failed)


def search(
    random: np.random.Generator, factors: int, truth: Truth, *, probe: float, miss: float = 0.0
) -> Answer:
    """Play one search to its end."""
    state = fresh(factors)
    counts = first_launch(random, state.options.probes, probe)
    state = state.update(frozenset(NAMES[:factors]), counts)
    while not isinstance(step := state.next_probe(), Answer):
        counts = launch(random, state, fails=truth.fails(step), probe=probe, miss=miss)
        state = state.update(step, counts)
    return step


def simulate(
    factors: int, cause: str, runs: int, *, probe: float, miss: float = 0.0, seed: int = 0
) -> Row:
    """Repeat for one kind of cause, drawn anew for every run."""
    random = np.random.default_rng([seed, factors, int(100 * probe), int(100 * miss), len(cause)])
    launches, right, wrong = [], 0, 0
    for _ in range(runs):
        truth = CAUSES[cause](list(random.permutation(list(NAMES[:factors]))))
        answer = search(random, factors, truth, probe=probe, miss=miss)
        launches.append(answer.launches)
        named = answer.conclusive and truth.is_named_by(answer)
        right, wrong = right + named, wrong + (answer.conclusive and not named)
    return Row(
        factors=factors,
        cause=cause,
        flaky_probe=probe,
        flaky_launch=miss,
        right=right / runs,
        wrong=wrong / runs,
        open=1 - (right + wrong) / runs,
        launches=float(np.median(launches)),
        launches_p90=float(np.percentile(launches, 90)),
        launches_max=max(launches),
    )


def broken(row: Row) -> str | None:
    """Name the bar that a row misses."""
    if row.flaky_launch:
        return None
    if row.wrong > MOST_WRONG:
        return "confidently wrong"
    if row.flaky_probe:
        return None
    if row.cause in KNOWN and row.right < LEAST_RIGHT:
        return "not right often enough"
    if (row.factors, row.cause) == (8, "pair") and row.launches > MOST_LAUNCHES:
        return "too many launches"
    return None


def shown(row: Row) -> str:
    """Write a row of the table of the docs."""
    noise = f"{row.flaky_launch:.0%} of launches" if row.flaky_launch else f"{row.flaky_probe:.0%}"
    return (
        f"| {row.factors} | {row.cause} | {noise} | {100 * row.right:.1f} | {100 * row.wrong:.1f}"
        f" | {100 * row.open:.1f} | {row.launches:.0f} | {row.launches_p90:.0f}"
        f" | {row.launches_max} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(f"isolation, {options.runs} searches a row\n")
        print("| factors | cause | flaky | right % | wrong % | open % | launches | p90 | most |")
        print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for factors, cause, probe, miss in TABLE:
        rows.append(simulate(factors, cause, options.runs, probe=probe, miss=miss))
        if not options.json:
            print(shown(rows[-1]), flush=True)
    if options.json:
        print(json.dumps({"runs": options.runs, "rows": [asdict(row) for row in rows]}))
    missed = [(row, bar) for row in rows if (bar := broken(row))]
    for row, bar in missed:
        print(f"{bar}: {row}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
