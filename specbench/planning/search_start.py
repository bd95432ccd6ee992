"""Set up a search for the cause: candidates, configurations that can be launched, priors."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from specbench.errors import InputError
from specbench.planning.catch_all import CatchAll, unlisted
from specbench.planning.causes import (
    Configuration,
    Hypothesis,
    failing,
    hypotheses,
    priors,
    space,
)
from specbench.planning.isolate import Search
from specbench.planning.probe_noise import noise
from specbench.planning.search_terms import Candidate, Options

ENUMERABLE = 12
"""Up to so many factors every configuration is considered; beyond, a seeded sample of them."""

MOST_CANDIDATES = 40


def start(
    candidates: Sequence[Candidate],
    options: Options | None = None,
    *,
    can_launch: Callable[[Configuration], bool] = lambda _: True,
    minutes: Callable[[Configuration], float] | None = None,
) -> Search:
    """Set up a search. The good server is taken to pass and the bad one to fail.

    `can_launch` leaves out configurations that no server can run; `minutes` is the cost of one
    (the options' launch and probes by default).

    Raises:
        InputError: no candidate, too many of them, or a name given twice.
    """
    options = options or Options()
    names = _checked(candidates)
    bad = frozenset(names)
    possible = tuple(c for c in _configurations(names) if c == bad or can_launch(c))
    where = space(names, possible, can_launch)
    laws = hypotheses(where)
    same = options.launch_minutes + options.probe_minutes
    grid = noise(options.probe_error)
    belief = priors(
        laws,
        {c.name: c.weight for c in candidates},
        lambda law: _share(law, options),
    )
    fails = failing(laws, possible, names)
    return Search(
        candidates=tuple(candidates),
        options=options,
        space=where,
        noise=grid,
        hypotheses=laws,
        possible=possible,
        fails=fails.astype(np.float32),
        minutes=np.maximum([minutes(c) if minutes else same for c in possible], 1e-3),
        joint=belief[:, None] * grid.weight[None, :],
        catch_all=CatchAll.after((), grid, bad),
        unlisted=unlisted(belief, grid.weight, fails, possible, bad),
        row={c: i for i, c in enumerate(possible)},
    )


def _share(law: Hypothesis, options: Options) -> float:
    """Prior of the family of a law: few factors are likelier than many, one set than several."""
    rest = 1 - options.pair_share - options.unexplained
    shares = {
        "pair": options.pair_share,
        "always": options.unexplained / 2,
        "other": options.unexplained / 2,
        "single": 0.70 * rest,
        "triple": 0.14 * rest,
        "four": 0.03 * rest,
        "all": 0.01 * rest,
        "unless": 0.01 * rest,
        "either": (0.08 if len(law.causes) == 2 else 0.01) * rest,
    }
    return shares[law.kind]


def _checked(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    names = tuple(candidate.name for candidate in candidates)
    if not names:
        raise InputError("the good and the bad server do not differ in any restart factor")
    if len(set(names)) < len(names):
        raise InputError("a restart factor is named twice")
    if len(names) > MOST_CANDIDATES:
        raise InputError(
            f"{len(names)} restart factors differ; at most {MOST_CANDIDATES} can be searched",
            hint="start from a good cell that is nearer to the bad one",
        )
    if any(
        not (candidate.weight > 0 and math.isfinite(candidate.weight)) for candidate in candidates
    ):
        raise InputError("a prior weight is a positive number")
    return names


def _configurations(names: tuple[str, ...]) -> list[Configuration]:
    """All configurations, the bad server last; for many factors a seeded sample of them."""
    if len(names) <= ENUMERABLE:
        sizes = range(len(names) + 1)
        return [frozenset(c) for size in sizes for c in itertools.combinations(names, size)]
    random = np.random.default_rng(0)
    everything = frozenset(names)
    near = [frozenset(c) for size in (0, 1, 2) for c in itertools.combinations(names, size)]
    far = [everything - c for c in near]
    halves = [
        frozenset(name for name, bad in zip(names, row, strict=True) if bad)
        for row in random.random((1000, len(names))) < random.uniform(0.2, 0.8, (1000, 1))
    ]
    return list(dict.fromkeys((*near, *halves, *reversed(far))))
