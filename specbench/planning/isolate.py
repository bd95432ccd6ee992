"""Which factors make a good server bad: a pure Bayesian experimental design.

A hypothesis is a law that says which configurations fail. Each launch is chosen for the most
information a minute, every verdict is believed as far as its probes allow, and an answer is given
only when every configuration that its sentence speaks of was itself launched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from specbench.errors import InputError
from specbench.planning.catch_all import CatchAll, Unlisted
from specbench.planning.causes import (
    Claim,
    Configuration,
    Hypothesis,
    Space,
    claims,
    failing,
)
from specbench.planning.probe_noise import Counts, Noise, missed
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

SHORT = 10
"""A search of fewer launches has seen few failures come again: it looks at its answer again."""

DECISIVE = 8.0
"""Odds of failing against sound from which a launch with a failed probe counts as failed."""

EARLY = 20.0
"""Odds from which a launch need not be asked further."""

HARDLY = 1e-3
"""Chance of missing a failure with all probes below which launches must differ themselves."""

MOST_TRIES = 3
"""A configuration that did not confirm its sentence in so many launches is left open."""

LEADING = 24
"""So many of the likeliest laws are looked at when a launch is valued as a confirmation."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search in progress; every method returns a new one or a value, nothing is changed.

    `possible[c]` is a configuration that can be launched, `fails[c, h]` whether it fails under
    hypothesis h, `minutes[c]` what it costs, `joint[h, g]` the prior of h and of the noise of grid
    point g times the likelihood of everything tried. `catch_all` is how
    the hypothesis of no law sees what was tried, `unlisted` its own share of it.
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
    catch_all: CatchAll
    unlisted: Unlisted
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

    @property
    def explained(self) -> float:
        """Probability of a law that holds in every launch."""
        steady = self.joint[:-1, self.noise.miss == 0].sum()
        return float(steady / self.joint.sum())

    def next_probe(self) -> Configuration | Answer:
        """Return the configuration that tells most a minute, or the answer."""
        belief = self.belief
        top = int(belief.argmax())
        split = self._split()
        if split or 1 - self.explained >= self.options.resigned:
            return self._resigned(split)
        checks = self.checks(self.hypotheses[top])
        sure = belief[top] >= self.options.confidence
        if sure and all(check.confirmed for check in checks):
            again = self._second_look(checks)
            if again is not None and len(self.tried) < self.options.most_launches:
                return again
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
        launches = [(one.configuration, one.counts) for one in tried]
        seen = CatchAll.after(launches, self.noise, self.space.bad)
        joint[-1] = self.unlisted.weigh(seen.likelihood, joint)
        return replace(after, joint=joint, catch_all=seen)

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
        """Return the likeliest hypotheses, the most probable first."""
        belief = self.belief
        order = np.argsort(-belief, kind="stable")[:LEADING]
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

    def _said(self, configuration: Configuration) -> list[ProbeVerdict]:
        return [tried.verdict for tried in self.tried if tried.configuration == configuration]

    def _confirmed(self, claim: Claim) -> bool | None:
        """Whether it came out so; one failure is proof where probes pass now and then."""
        said = set(self._said(claim.configuration)) - {"inconclusive"}
        if claim.configuration == self.space.bad:
            said.add("fails")
        return ("fails" in said) == claim.fails if said else None

    def _second_look(self, checks: Sequence[Checked]) -> Configuration | None:
        """Give a configuration of the answer to launch again: it must come out as before."""
        launched = {tried.configuration for tried in self.tried}
        mine = [one for check in checks if (one := frozenset(check.bad)) in launched]
        repeated = len(self.tried) - len(launched)
        wanted = self.options.second_looks
        if wanted is None:
            wanted = 1 if len(self.tried) < SHORT else 0
        if repeated >= wanted or not mine:
            return None
        fewest = min(len(self._said(one)) for one in mine)
        mine = [one for one in mine if len(self._said(one)) == fewest]
        gain = self._information(mine)
        return mine[int(gain.argmax())]

    def _split(self) -> list[Configuration]:
        """Give what failed in one launch and passed in another, if its probes do not explain it."""
        failing = [tried.counts for tried in self.tried if tried.counts.failed]
        if missed(failing, self.options.probes, self.options.probe_error) >= HARDLY:
            return []
        both = {"fails", "passes"}
        return [c for c in {t.configuration for t in self.tried} if both <= set(self._said(c))]

    def _resigned(self, split: Sequence[Configuration]) -> Answer:
        """Leave it open because no law that holds in every launch explains what was seen."""
        if split:
            several = " and ".join(shown(c) for c in sorted(split, key=sorted))
            return self._answer(
                "differs by launch", f"{several} failed in one launch and passed in another"
            )
        return self._answer(
            "catch-all",
            "no law known to the search explains the launches, unless what fails differs by launch",
        )

    def _confirming(self, checks: Sequence[Checked]) -> Configuration | Answer:
        """Give the launch that confirms most of the likeliest sentence, or say why none can."""
        open_ones = [frozenset(check.bad) for check in checks if not check.confirmed]
        for one in open_ones:
            if len(self._said(one)) >= MOST_TRIES:
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
        best = np.flatnonzero(rate >= rate.max() * (1 - 1e-5))
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
        of_law = (fails @ np.stack([mean, doubt], axis=1).astype(np.float32)).astype(np.float64)
        other = self.catch_all.chances(configurations, joint[-1])
        seen_other = alarm + other * (seen[-1] - alarm)
        rest = 1 - belief[-1]
        total = of_law[:, 0] + rest * alarm + belief[-1] * seen_other
        given = of_law[:, 1] + rest * _entropy(np.array(alarm))
        gain: NDArray[np.float64] = _entropy(total) - given - belief[-1] * _entropy(seen_other)
        return gain

    def _fails(self, configuration: Configuration) -> NDArray[np.bool_]:
        place = self.row.get(configuration)
        if place is not None:
            return np.asarray(self.fails[place] > 0)
        return np.asarray(failing(self.hypotheses, [configuration], self.space.names)[0])

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
