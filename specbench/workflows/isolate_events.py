"""What a search for the cause tells as it goes, and its answer."""

import msgspec

from specbench.model.matrix import Level
from specbench.planning.probe_noise import Counts
from specbench.planning.search_forecast import Forecast
from specbench.planning.search_terms import Candidate, Checked, ProbeVerdict, Reason, Suspect
from specbench.planning.shrink import ShrinkStep


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """Before anything is launched: the candidates, the first steps and the expected cost.

    `launches` and `minutes` include the launch of the bad server on which the probe is shrunk;
    `minutes` is None where nothing yet tells what a launch costs.
    """

    candidates: tuple[Candidate, ...]
    probe: str
    probes: int
    forecast: Forecast
    launches: float
    minutes: float | None


class Launching(msgspec.Struct, frozen=True, kw_only=True, tag="launching"):
    """A server is about to be started with these factors at their bad level."""

    bad: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """A probe was answered; `cached` from the journal of an earlier, interrupted search.

    `shrinking` says that it was asked to make the probe cheaper.
    """

    bad: tuple[str, ...]
    settings: dict[str, Level]
    verdict: ProbeVerdict
    note: str
    minutes: float
    cached: bool
    shrinking: bool = False


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag="judged"):
    """What all probes of a launch come to, and what is still expected, as measured so far."""

    bad: tuple[str, ...]
    verdict: ProbeVerdict
    counts: Counts
    note: str
    launches_left: float | None = None
    minutes_left: float | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag="finding"):
    """The answer, and the probe that shows it.

    `causes` maps each factor to its good and bad level; `sets` are the sets of them of which each
    is enough, `cure` a factor that cures and one that undoes it. `checks` are the launches that the
    sentence speaks of. `needed` are changes of the probe under which the bad server passed.
    `bad_server` counts the probes of the bad server, `flaky` says that some passed there.
    `would_decide` says what more launches would tell, `more_launches` how many are
    expected where the bound ended the search. `launches` counts servers started by this
    call and earlier ones.
    """

    schema: int = 1
    conclusive: bool
    kind: str
    causes: dict[str, tuple[Level, Level]]
    sets: tuple[tuple[str, ...], ...]
    cure: tuple[str, str] | None
    probability: float
    reason: Reason
    why: str
    reading: str
    would_decide: str
    more_launches: float | None
    checks: tuple[Checked, ...]
    suspects: tuple[Suspect, ...]
    smallest_failing: tuple[tuple[str, ...], ...]
    largest_passing: tuple[tuple[str, ...], ...]
    probe: str
    probes: int
    bad_server: Counts
    flaky: bool
    differs_by_launch: float
    settings: dict[str, Level]
    needed: tuple[ShrinkStep, ...]
    launches: int
    minutes: float
    journal: str
    exit_status: int


IsolateEvent = Planned | Launching | Asked | Judged | Finding
