"""How many launches `isolate` needs, and how often it is right, by simulation.

    python benchmarks/stats_isolate.py [--runs 1500] [--json]

Causes are drawn from the priors that the search is given: weights of the factors from a flat
Dirichlet distribution, 30 % pairs; 2 % of verdicts are wrong. A second table has equal weights:
nothing known beforehand. Delta debugging (ddmin, Zeller and Hildebrandt 2002) and one factor at a
time are counted without verdict errors, for comparison. Exits with status 1 if the first table
misses 3.3, 4.2, 5.0, 6.1 launches for 4, 6, 8, 10 factors, or is right less often than 98 %.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass

import numpy as np

from specbench.planning.isolate import Answer, Candidate, Configuration, Options, start

LIMITS = {4: 3.3, 6: 4.2, 8: 5.0, 10: 6.1}
PAIRS = 0.3
ERROR = 0.02


@dataclass(frozen=True)
class Row:
    priors: str
    factors: int
    launches: float
    launches_p90: float
    right: float
    ddmin: float


def draw(random: np.random.Generator, weights: np.ndarray) -> Configuration:
    """Draw a cause: a single with its weight, or a pair with the product of the weights."""
    k = len(weights)
    if random.random() >= PAIRS:
        return frozenset([str(random.choice(k, p=weights))])
    pairs = np.triu(np.outer(weights, weights), 1).ravel()
    i, j = divmod(int(random.choice(k * k, p=pairs / pairs.sum())), k)
    return frozenset([str(i), str(j)])


def search(
    random: np.random.Generator, weights: np.ndarray, cause: Configuration
) -> tuple[int, bool]:
    """Play one search to its end: launches used, and whether it named the cause."""
    candidates = [
        Candidate(name=str(i), good=0, bad=1, weight=max(float(w), 1e-9))
        for i, w in enumerate(weights)
    ]
    state = start(candidates, Options(pair_share=PAIRS, verdict_error=ERROR))
    while not isinstance(step := state.next_probe(), Answer):
        fails = (cause <= step) != (random.random() < ERROR)
        state = state.update(step, "fails" if fails else "passes")
    return step.launches, frozenset(step.causes) == cause


def ddmin(factors: int, cause: Configuration) -> int:
    """Count the distinct configurations that delta debugging tests."""
    tested: set[Configuration] = set()

    def fails(configuration: Configuration) -> bool:
        tested.add(configuration)
        return cause <= configuration

    failing = [str(i) for i in range(factors)]
    n = 2
    while len(failing) >= 2:
        parts = [list(part) for part in np.array_split(failing, n)]
        smaller = next((p for p in parts if fails(frozenset(map(str, p)))), None)
        if smaller is not None:
            failing, n = [str(name) for name in smaller], 2
            continue
        rests = (
            [[f for f in failing if f not in {str(x) for x in p}] for p in parts] if n > 2 else []
        )
        rest = next((r for r in rests if fails(frozenset(r))), None)
        if rest is not None:
            failing, n = rest, max(n - 1, 2)
        elif n < len(failing):
            n = min(2 * n, len(failing))
        else:
            break
    return len(tested)


def simulate(factors: int, runs: int, seed: int, *, flat: bool) -> Row:
    """Repeat for one number of factors."""
    random = np.random.default_rng(seed)
    counts, right, other = [], [], []
    for _ in range(runs):
        weights = np.full(factors, 1 / factors) if flat else random.dirichlet(np.ones(factors))
        cause = draw(random, weights)
        launches, found = search(random, weights, cause)
        counts.append(launches)
        right.append(found)
        other.append(ddmin(factors, cause))
    return Row(
        priors="equal" if flat else "Dirichlet",
        factors=factors,
        launches=float(np.mean(counts)),
        launches_p90=float(np.percentile(counts, 90)),
        right=float(np.mean(right)),
        ddmin=float(np.mean(other)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        simulate(factors, options.runs, seed=factors, flat=flat)
        for flat in (False, True)
        for factors in LIMITS
    ]
    if options.json:
        print(json.dumps({"runs": options.runs, "rows": [asdict(row) for row in rows]}))
    else:
        print(f"isolation, {options.runs} searches a row, 30 % pairs, 2 % wrong verdicts")
        print("priors    factors  launches (p90)  limit  right   ddmin  one at a time")
        for row in rows:
            print(
                f"{row.priors:9s} {row.factors:7d}  {row.launches:5.2f} ({row.launches_p90:3.0f})"
                f"      {LIMITS[row.factors] if row.priors == 'Dirichlet' else '-':>5}"
                f"  {row.right:6.1%}  {row.ddmin:5.1f}  {row.factors:3d}"
            )
    known = rows[: len(LIMITS)]
    met = all(row.launches <= LIMITS[row.factors] and row.right >= 0.98 for row in known)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
