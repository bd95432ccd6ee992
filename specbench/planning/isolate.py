"""Which factor, or pair of factors, makes a good server bad: a pure Bayesian experimental design.

A hypothesis is a minimal failing set: the configuration S (the factors at their bad level) fails
if and only if the set is contained in S. Each launch is chosen for the most information a minute,
each verdict is believed up to a stated error, and the search ends at a stated confidence.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.errors import InputError
from specbench.model.matrix import Level

Configuration = frozenset[str]
"""The restart factors at their bad level; all others are at their good level."""

ProbeVerdict = Literal["fails", "passes", "inconclusive"]
Kind = Literal["single", "pair", "three or more", "always"]

ENUMERABLE = 12
"""Up to so many factors every configuration is considered; beyond, a seeded sample of them."""

MOST_CANDIDATES = 40


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A restart factor that differs between the good and the bad server.

    `weight` is its prior odds of being involved, relative to the other candidates.
    """

    name: str
    good: Level
    bad: Level
    weight: float = 1.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the search takes for granted.

    `pair_share` is the prior share of pairs; `unexplained` that of causes which are no single and
    no pair (three or more factors together, or the probe failing on the good server too): small,
    because good and bad were seen to be so; raise it where they were not. `verdict_error` is how
    often a verdict is wrong; `confidence` where the search stops.
    """

    pair_share: float = 0.3
    unexplained: float = 0.004
    verdict_error: float = 0.02
    confidence: float = 0.95
    launch_minutes: float = 8.5
    probe_minutes: float = 0.5
    most_launches: int = 40


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """One possible cause; `causes` is empty for "always" and all factors for "three or more"."""

    kind: Kind
    causes: Configuration


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was launched and what the probe said."""

    configuration: Configuration
    verdict: ProbeVerdict


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothesis with its probability given everything tried."""

    kind: Kind
    causes: tuple[str, ...]
    probability: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a search. `conclusive` is false when it stopped below the confidence asked for.

    `suspects` are ordered by probability; the first one is the answer.
    """

    conclusive: bool
    suspects: tuple[Suspect, ...]
    launches: int
    why: str

    @property
    def causes(self) -> tuple[str, ...]:
        """The factors named."""
        return self.suspects[0].causes

    @property
    def probability(self) -> float:
        """How sure the search is of them."""
        return self.suspects[0].probability


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a search will cost: launches and minutes, expected and at worst, without errors."""

    first: tuple[str, ...]
    if_it_fails: tuple[str, ...]
    if_it_passes: tuple[str, ...]
    mean_launches: float
    most_launches: int
    mean_minutes: float
    most_minutes: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search in progress; every method returns a new one or a value, nothing is changed.

    `possible[c]` is a configuration that can be launched, `fails[c, h]` whether it fails under
    hypothesis h, `minutes[c]` what it costs, `belief[h]` the probability of h so far.
    """

    candidates: tuple[Candidate, ...]
    options: Options
    hypotheses: tuple[Hypothesis, ...]
    possible: tuple[Configuration, ...]
    fails: NDArray[np.float64]
    minutes: NDArray[np.float64]
    belief: NDArray[np.float64]
    tried: tuple[Tried, ...] = ()
    row: dict[Configuration, int] = field(default_factory=dict)

    def next_probe(self) -> Configuration | Answer:
        """Return the configuration that tells most a minute, or the answer."""
        if self.belief.max() >= self.options.confidence:
            return self._answer(conclusive=True, why="the confidence asked for is reached")
        if len(self.tried) >= self.options.most_launches:
            return self._answer(conclusive=False, why="the bound on launches is reached")
        gain = self._information()
        if len(gain) == 0 or gain.max() < 1e-6:
            return self._answer(
                conclusive=False, why="no configuration that can be launched tells more"
            )
        rate = gain / self.minutes
        # Ties go to the configuration nearest to the good one, then to the first by name.
        best = np.flatnonzero(rate >= rate.max() * (1 - 1e-9))
        return min((self.possible[i] for i in best), key=lambda c: (len(c), sorted(c)))

    def update(self, configuration: Configuration, verdict: ProbeVerdict) -> "Search":
        """Return the search after a verdict; an inconclusive one teaches nothing but is counted.

        Raises:
            InputError: the configuration is none that can be launched.
        """
        tried = (*self.tried, Tried(configuration=configuration, verdict=verdict))
        if configuration not in self.row:
            raise InputError(f"no such configuration: {sorted(configuration)}")
        if verdict == "inconclusive":
            return replace(self, tried=tried, minutes=self._dearer(configuration))
        error = self.options.verdict_error
        fails = self.fails[self.row[configuration]] * (1 - 2 * error) + error
        belief = self.belief * (fails if verdict == "fails" else 1 - fails)
        return replace(self, tried=tried, belief=belief / belief.sum())

    def suspects(self) -> tuple[Suspect, ...]:
        """Return all hypotheses, the most probable first."""
        order = np.argsort(-self.belief, kind="stable")
        return tuple(
            Suspect(
                kind=self.hypotheses[i].kind,
                causes=tuple(sorted(self.hypotheses[i].causes)),
                probability=float(self.belief[i]),
            )
            for i in order
        )

    def _information(self) -> NDArray[np.float64]:
        """Mutual information of each configuration's verdict and the hypotheses, in bits."""
        error = self.options.verdict_error
        fails = (self.fails @ self.belief) * (1 - 2 * error) + error
        information: NDArray[np.float64] = _entropy(fails) - _entropy(np.array([error]))
        return information

    def _dearer(self, configuration: Configuration) -> NDArray[np.float64]:
        """Double the price of what could not be decided, so that others come first next time."""
        minutes = self.minutes.copy()
        minutes[self.row[configuration]] *= 2
        return minutes

    def _answer(self, *, conclusive: bool, why: str) -> Answer:
        return Answer(
            conclusive=conclusive,
            suspects=self.suspects(),
            launches=len(self.tried),
            why=why,
        )


def start(
    candidates: Sequence[Candidate],
    options: Options | None = None,
    *,
    can_launch: Callable[[Configuration], bool] = lambda _: True,
    minutes: Callable[[Configuration], float] | None = None,
) -> Search:
    """Set up a search. The good server is taken to pass and the bad one to fail.

    `can_launch` leaves out configurations that no server can run; `minutes` is the cost of one
    (the options' launch and probe by default).

    Raises:
        InputError: no candidate, too many of them, or a name given twice.
    """
    options = options or Options()
    names = _checked(candidates)
    possible = tuple(c for c in _configurations(names) if can_launch(c))
    hypotheses = _hypotheses(names, [*possible, frozenset(names)])
    same = options.launch_minutes + options.probe_minutes
    cost = [minutes(c) if minutes else same for c in possible]
    causes = _codes([h.causes for h in hypotheses], names)
    subset = (_codes(possible, names)[:, None] & causes) == causes
    return Search(
        candidates=tuple(candidates),
        options=options,
        hypotheses=hypotheses,
        possible=possible,
        fails=subset.astype(np.float64),
        minutes=np.maximum(np.array(cost, dtype=np.float64), 1e-3),
        belief=_priors(candidates, hypotheses, options),
        row={c: i for i, c in enumerate(possible)},
    )


def forecast(search: Search) -> Forecast:
    """Tell what the search will cost from here, by playing it for every hypothesis."""
    first = search.next_probe()
    branches = [_first_of(search, first, verdict) for verdict in ("fails", "passes")]
    played = [_play(search, h) for h in search.hypotheses]
    weights = search.belief / search.belief.sum()
    launches = np.array([launches for launches, _ in played])
    minutes = np.array([minutes for _, minutes in played])
    return Forecast(
        first=() if isinstance(first, Answer) else tuple(sorted(first)),
        if_it_fails=branches[0],
        if_it_passes=branches[1],
        mean_launches=float(weights @ launches),
        most_launches=int(launches.max()),
        mean_minutes=float(weights @ minutes),
        most_minutes=float(minutes.max()),
    )


def _first_of(
    search: Search, first: Configuration | Answer, verdict: Literal["fails", "passes"]
) -> tuple[str, ...]:
    if isinstance(first, Answer):
        return ()
    following = search.update(first, verdict).next_probe()
    return following.causes if isinstance(following, Answer) else tuple(sorted(following))


def _play(search: Search, truth: Hypothesis) -> tuple[int, float]:
    """Count launches and minutes to the answer when `truth` holds and no verdict errs."""
    minutes = 0.0
    already = len(search.tried)
    while not isinstance(step := search.next_probe(), Answer):
        minutes += float(search.minutes[search.row[step]])
        bad = truth.causes <= step
        search = search.update(step, "fails" if bad else "passes")
    return len(search.tried) - already, minutes


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


def _hypotheses(
    names: tuple[str, ...], launchable: Sequence[Configuration]
) -> tuple[Hypothesis, ...]:
    """List the minimal failing sets that can be told apart in principle.

    A factor that only exists beside another one (a tree's topk beside the tree) stands for the
    pair of them.
    """
    needs = {
        name: frozenset(names).intersection(*(c for c in launchable if name in c)) for name in names
    }
    singles = [Hypothesis(kind="single", causes=frozenset([name])) for name in names]
    pairs = [
        Hypothesis(kind="pair", causes=frozenset(pair))
        for pair in itertools.combinations(names, 2)
        if (pair[0] in needs[pair[1]]) == (pair[1] in needs[pair[0]])
    ]
    more = [Hypothesis(kind="three or more", causes=frozenset(names))] if len(names) > 2 else []
    return (*singles, *pairs, *more, Hypothesis(kind="always", causes=frozenset()))


def _configurations(names: tuple[str, ...]) -> list[Configuration]:
    """All configurations but the bad server itself, which is known to fail."""
    if len(names) <= ENUMERABLE:
        sizes = range(len(names))
        return [frozenset(c) for size in sizes for c in itertools.combinations(names, size)]
    random = np.random.default_rng(0)
    everything = frozenset(names)
    near = [frozenset(c) for size in (0, 1, 2) for c in itertools.combinations(names, size)]
    far = [everything - c for c in near if c]
    halves = [
        frozenset(name for name, bad in zip(names, row, strict=True) if bad)
        for row in random.random((2000, len(names))) < random.uniform(0.2, 0.8, (2000, 1))
    ]
    return list(dict.fromkeys(c for c in (*near, *far, *halves) if c != everything))


def _codes(sets: Sequence[Configuration], names: tuple[str, ...]) -> NDArray[np.int64]:
    """One bit a factor, so that set inclusion is arithmetic."""
    bit = {name: 1 << i for i, name in enumerate(names)}
    return np.array([sum(bit[name] for name in one) for one in sets], dtype=np.int64)


def _priors(
    candidates: Sequence[Candidate], hypotheses: tuple[Hypothesis, ...], options: Options
) -> NDArray[np.float64]:
    """Singles in proportion to their weight, pairs to the product of theirs."""
    weight = {candidate.name: candidate.weight for candidate in candidates}
    raw = np.array([math.prod(weight[name] for name in h.causes) for h in hypotheses])
    shares = {
        "single": 1 - options.pair_share,
        "pair": options.pair_share,
        "three or more": options.unexplained / 2,
        "always": options.unexplained / 2,
    }
    belief = np.zeros(len(hypotheses))
    for kind, share in shares.items():
        mine = np.array([h.kind == kind for h in hypotheses])
        if mine.any():
            belief[mine] = share * raw[mine] / raw[mine].sum()
    total: float = belief.sum()
    return belief * (1.0 / total)


def _entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.clip(p, 1e-300, 1.0)
    r = np.clip(1 - p, 1e-300, 1.0)
    bits: NDArray[np.float64] = -(q * np.log2(q) + r * np.log2(r))
    return bits
