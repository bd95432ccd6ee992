"""What a search for the cause is given, and what it says: candidates, options, the answer."""

from typing import Literal

import msgspec

from specbench.model.matrix import Level
from specbench.planning.causes import Configuration, Kind
from specbench.planning.probe_noise import Counts

ProbeVerdict = Literal["fails", "passes", "inconclusive"]
Reason = Literal["confirmed", "catch-all", "differs by launch", "bound", "cannot launch", "no more"]


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

    `pair_share` is the prior share of pairs; `unexplained` that of the probe failing on the good
    server too and of causes without a law here, half each: small, because good and bad were seen
    to be so; raise it where they were not. A launch passes when all its `probes` pass.
    `probe_error` is how often one probe passes on a failing server; None learns it from the
    launches. `confidence` is where an answer is confirmed, `resigned` where the search stops
    because it rests on the catch-all or on launches that differ. `confirming` weighs, in bits, that
    a launch will have to be made for the answer anyway. An answer has `second_looks` launches of
    configurations that had been launched before; None: one, in a search that was short.
    """

    pair_share: float = 0.35
    unexplained: float = 0.03
    probes: int = 8
    probe_error: float | None = None
    confidence: float = 0.97
    resigned: float = 0.9
    confirming: float = 0.6
    launch_minutes: float = 8.5
    probe_minutes: float = 0.5
    most_launches: int = 30
    second_looks: int | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was launched and what its probes said."""

    configuration: Configuration
    verdict: ProbeVerdict
    counts: Counts


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothesis with its probability given everything tried."""

    kind: Kind
    causes: tuple[str, ...]
    probability: float
    sets: tuple[tuple[str, ...], ...] = ()
    cure: tuple[str, str] | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that the likeliest sentence speaks of; `confirmed` is None before it is launched."""

    bad: tuple[str, ...]
    fails: bool
    confirmed: bool | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a search. `conclusive` is false when it is left open, `reason` says why.

    `suspects` are ordered by probability; the first one is the answer. `checks` are the launches
    that its sentence speaks of.
    """

    conclusive: bool
    suspects: tuple[Suspect, ...]
    launches: int
    reason: Reason
    why: str
    checks: tuple[Checked, ...] = ()
    differs: float = 0.0

    @property
    def causes(self) -> tuple[str, ...]:
        """The factors named."""
        return self.suspects[0].causes

    @property
    def probability(self) -> float:
        """How sure the search is of them."""
        return self.suspects[0].probability
