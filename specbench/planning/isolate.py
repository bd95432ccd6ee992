"""Which factors make a good server bad: a pure Bayesian experimental design.

A hypothesis is a law that says which configurations fail. Each launch is chosen for the most
information a minute, every verdict is believed as far as its probes allow, and an answer is given
only when every configuration that its sentence speaks of was itself launched.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from specbench.errors import InputError
from specbench.planning.catch_all import CatchAll
from specbench.planning.causes import (
    Claim,
    Configuration,
    Hypothesis,
    Space,
    claims,
    failing,
    hypotheses,
    priors,
    space,
)
from specbench.planning.probe_noise import Counts, Noise, noise
from specbench.planning.search_terms import (
    Answer,
    Candidate,
    Checked,
    Options,
    ProbeVerdict,
    Reason,
    Suspect,
    Tried,
)

ENUMERABLE = 12
"""Up to so many factors every configuration is considered; beyond, a seeded sample of them."""

MOST_CANDIDATES = 40

DECISIVE = 3.0
"""Odds of failing against sound from which a launch with a failed probe counts as failed."""

EARLY = 20.0
"""Odds from which a launch need not be asked further."""

MOST_UNDECIDED = 2
"""A configuration that could not be decided so often is not launched for a confirmation again."""

LEADING = 24
"""So many of the likeliest laws are looked at when a launch is valued as a confirmation."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search in progress; every method returns a new one or a value, nothing is changed.

    `possible[c]` is a configuration that can be launched, `fails[c, h]` whether it fails under
    hypothesis h, `minutes[c]` what it costs, `joint[h, g]` the prior of h and of the noise of grid
    point g times the likelihood of everything tried.
    """

    candidates: tuple[Candidate, ...]
    options: Options
    space: Space
    noise: Noise
    hypotheses: tuple[Hypothesis, ...]
    possible: tuple[Configuration, ...]
    fails: NDArray[np.float32]
    minutes: NDArray[np.float64]
    joint: NDArray[np.float64]
    tried: tuple[Tried, ...] = ()
    row: dict[Configuration, int] = field(default_factory=dict)

    @property
    def belief(self) -> NDArray[np.float64]:
        """Probability of each hypothesis so far."""
        belief: NDArray[np.float64] = self.joint.sum(axis=1) / self.joint.sum()
        return belief

    @property
    def differs(self) -> float:
        """Probability that a failing configuration comes up sound in some launches."""
        return float(self.joint[:, self.noise.miss > 0].sum() / self.joint.sum())

    def next_probe(self) -> Configuration | Answer:
        """Return the configuration that tells most a minute, or the answer."""
        belief = self.belief
        top = int(belief.argmax())
        if belief[-1] >= self.options.resigned:
            return self._answer("catch-all", "no law that the search knows explains the launches")
        if self.differs >= self.options.resigned:
            return self._answer(
                "differs by launch", "the same configuration does not fail in every launch"
            )
        checks = self.checks(self.hypotheses[top])
        sure = belief[top] >= self.options.confidence
        if sure and all(check.confirmed for check in checks):
            return self._answer("confirmed", "every configuration it speaks of was launched")
        if len(self.tried) >= self.options.most_launches:
            return self._answer("bound", "the bound on launches is reached")
        if sure:
            return self._confirming(checks)
        return self._most_telling(belief)

    def update(self, configuration: Configuration, outcome: ProbeVerdict | Counts) -> "Search":
        """Return the search after a launch; an inconclusive one teaches nothing but is counted.

        A verdict in words stands for all probes of a launch.

        Raises:
            InputError: the configuration is none that can be launched.
        """
        if not (configuration in self.row or self.space.can_launch(configuration)):
            raise InputError(f"no such configuration: {sorted(configuration)}")
        counts = self._counts(outcome)
        verdict = self.verdict(counts)
        tried = (
            *self.tried, Tried(configuration=configuration, verdict=verdict, counts=counts)
        )  # fmt: skip
        after = replace(self, tried=tried)
        if verdict == "inconclusive":
            after = replace(after, minutes=self._dearer(configuration))
        if not counts.asked:
            return after
        likely = np.where(
            self._fails(configuration)[:, None],
            self.noise.when_failing(counts)[None, :],
            self.noise.when_sound(counts),
        )
        joint = self.joint * likely
        before, now = self._catch_all(), after._catch_all()
        joint[-1] = self.joint[-1] * now.likelihood / before.likelihood
        return replace(after, joint=joint)

    def verdict(self, counts: Counts) -> ProbeVerdict:
        """Say what a launch comes to; one failed probe of many is not decisive where bad is bad."""
        if not counts.asked:
            return "inconclusive"
        if not counts.failed:
            return "passes"
        return "fails" if self._odds(counts) >= DECISIVE else "inconclusive"

    def enough(self, counts: Counts) -> bool:
        """Whether the launch need not be asked further: all its probes, or one that decides."""
        if counts.asked >= self.options.probes:
            return True
        return counts.failed > 0 and self._odds(counts) >= EARLY

    def cost(self, configuration: Configuration) -> float:
        """Minutes that a launch takes; one beyond the sample costs what the others do."""
        place = self.row.get(configuration)
        return float(np.median(self.minutes) if place is None else self.minutes[place])

    def suspects(self) -> tuple[Suspect, ...]:
        """Return all hypotheses, the most probable first."""
        belief = self.belief
        order = np.argsort(-belief, kind="stable")
        return tuple(_suspect(self.hypotheses[i], float(belief[i])) for i in order)

    def checks(self, law: Hypothesis) -> tuple[Checked, ...]:
        """List the launches that a law's sentence speaks of, and how they came out."""
        return tuple(
            Checked(
                bad=tuple(sorted(claim.configuration)),
                fails=claim.fails,
                confirmed=self._confirmed(claim),
            )
            for claim in claims(law, self.space)
        )

    def _confirmed(self, claim: Claim) -> bool | None:
        wanted: ProbeVerdict = "fails" if claim.fails else "passes"
        said = {
            tried.verdict
            for tried in self.tried
            if tried.configuration == claim.configuration and tried.verdict != "inconclusive"
        }
        if claim.configuration == self.space.bad:
            said.add("fails")
        return said == {wanted} if said else None

    def _confirming(self, checks: Sequence[Checked]) -> Configuration | Answer:
        """Give the launch that confirms most of the likeliest sentence, or say why none can."""
        open_ones = [frozenset(check.bad) for check in checks if not check.confirmed]
        undecided = [t.configuration for t in self.tried if t.verdict == "inconclusive"]
        for one in open_ones:
            if undecided.count(one) >= MOST_UNDECIDED:
                return self._answer("cannot launch", f"{shown(one)} could not be decided")
            if not (one in self.row or self.space.can_launch(one)):
                return self._answer("cannot launch", f"no server can run {shown(one)}")
        gain = self._information(open_ones)
        return open_ones[int(gain.argmax())]

    def _most_telling(self, belief: NDArray[np.float64]) -> Configuration | Answer:
        gain = self._information(None)
        if len(gain) == 0 or gain.max() < 1e-6:
            return self._answer("no more", "no configuration that can be launched tells more")
        rate = (gain + self.options.confirming * self._confirmations(belief)) / self.minutes
        # Ties go to the configuration nearest to the good one, then to the first by name.
        best = np.flatnonzero(rate >= rate.max() * (1 - 1e-9))
        return min((self.possible[i] for i in best), key=lambda c: (len(c), sorted(c)))

    def _confirmations(self, belief: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chance, for each configuration, that the answer will have to show it launched."""
        chance = np.zeros(len(self.possible))
        known = {t.configuration for t in self.tried if t.verdict != "inconclusive"}
        known.add(self.space.bad)
        for i in np.argsort(-belief, kind="stable")[:LEADING]:
            for claim in claims(self.hypotheses[i], self.space):
                place = self.row.get(claim.configuration)
                if place is not None and claim.configuration not in known:
                    chance[place] += belief[i]
        return chance

    def _information(self, only: Sequence[Configuration] | None) -> NDArray[np.float64]:
        """Mutual information of each configuration's verdict and the hypotheses, in bits."""
        every = only is None
        configurations = self.possible if only is None else only
        fails = self.fails if every else np.array([self._fails(c) for c in configurations])
        joint = self.joint / self.joint.sum()
        belief = np.maximum(joint.sum(axis=1), 1e-300)
        none_failed = Counts(asked=self.options.probes)
        seen = joint @ (1 - self.noise.when_failing(none_failed)) / belief
        alarm = 1 - self.noise.when_sound(none_failed)
        mean = belief * (seen - alarm)
        doubt = belief * (_entropy(seen) - _entropy(np.array(alarm)))
        mean[-1] = doubt[-1] = 0.0
        of_law = fails @ np.stack([mean, doubt], axis=1)
        other = self._catch_all().chances(configurations, joint[-1])
        seen_other = alarm + other * (seen[-1] - alarm)
        rest = 1 - belief[-1]
        total = of_law[:, 0] + rest * alarm + belief[-1] * seen_other
        given = of_law[:, 1] + rest * _entropy(np.array(alarm))
        gain: NDArray[np.float64] = _entropy(total) - given - belief[-1] * _entropy(seen_other)
        return gain

    def _fails(self, configuration: Configuration) -> NDArray[np.bool_]:
        place = self.row.get(configuration)
        if place is not None:
            return self.fails[place] > 0
        row: NDArray[np.bool_] = failing(self.hypotheses, [configuration], self.space.names)[0]
        return row

    def _catch_all(self) -> CatchAll:
        launches = [(tried.configuration, tried.counts) for tried in self.tried]
        return CatchAll.after(launches, self.noise, self.space.bad)

    def _odds(self, counts: Counts) -> float:
        """Odds that a launch with these counts was of a failing configuration."""
        weight = self.joint.sum(axis=0)
        likely = self.noise.when_failing(counts) @ weight / weight.sum()
        return float(likely / self.noise.when_sound(counts))

    def _counts(self, outcome: ProbeVerdict | Counts) -> Counts:
        every = self.options.probes
        match outcome:
            case "fails":
                return Counts(asked=every, failed=every)
            case "passes":
                return Counts(asked=every)
            case "inconclusive":
                return Counts()
            case _:
                return outcome

    def _dearer(self, configuration: Configuration) -> NDArray[np.float64]:
        """Double the price of what could not be decided, so that others come first next time."""
        minutes = self.minutes.copy()
        if configuration in self.row:
            minutes[self.row[configuration]] *= 2
        return minutes

    def _answer(self, reason: Reason, why: str) -> Answer:
        top = self.hypotheses[int(self.joint.sum(axis=1).argmax())]
        return Answer(
            conclusive=reason == "confirmed",
            suspects=self.suspects(),
            launches=len(self.tried),
            reason=reason,
            why=why,
            checks=self.checks(top),
            differs=self.differs,
        )


def shown(configuration: Configuration) -> str:
    """Say a configuration in words."""
    return f"bad {', '.join(sorted(configuration))}" if configuration else "the good server"


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
    same = options.launch_minutes + options.probe_minutes * options.probes
    grid = noise(options.probe_error)
    belief = priors(laws, {c.name: c.weight for c in candidates}, lambda law: _share(law, options))
    return Search(
        candidates=tuple(candidates),
        options=options,
        space=where,
        noise=grid,
        hypotheses=laws,
        possible=possible,
        fails=failing(laws, possible, names).astype(np.float32),
        minutes=np.maximum([minutes(c) if minutes else same for c in possible], 1e-3),
        joint=belief[:, None] * grid.weight[None, :],
        row={c: i for i, c in enumerate(possible)},
    )


def _share(law: Hypothesis, options: Options) -> float:
    """Prior of the family of a law: few factors are likelier than many, one set than several."""
    rest = 1 - options.pair_share - options.unexplained
    match law.kind:
        case "pair":
            return options.pair_share
        case "always" | "other":
            return options.unexplained / 2
        case "single":
            return 0.70 * rest
        case "triple":
            return 0.14 * rest
        case "four":
            return 0.03 * rest
        case "all" | "unless":
            return 0.01 * rest
        case "either":
            return (0.08 if len(law.causes) == 2 else 0.01) * rest


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


def _suspect(law: Hypothesis, probability: float) -> Suspect:
    return Suspect(
        kind=law.kind,
        causes=tuple(sorted(law.causes)),
        probability=probability,
        sets=tuple(tuple(sorted(one)) for one in law.sets),
        cure=law.cure,
    )


def _entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.clip(p, 1e-300, 1.0)
    r = np.clip(1 - p, 1e-300, 1.0)
    bits: NDArray[np.float64] = -(q * np.log2(q) + r * np.log2(r))
    return bits
