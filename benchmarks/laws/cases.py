"""The designs and laws of noise that the comparison is judged on, and the bar of each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from benchmarks.laws.queue import Engine
from benchmarks.laws.recording import Design, Law
from benchmarks.laws.replies import Workload
from benchmarks.laws.restarts import Outliers, Restarts
from benchmarks.laws.rows import Faults

Limits = Mapping[str, tuple[float, float]]
"""By figure: the least and the most that it may be, in per cent."""

EQUAL: Limits = {
    "false, these": (0, 5), "false, such": (0, 5), "family": (0, 5),
    "covers, these": (94, 100), "covers, such": (94, 100), "gate": (0, 5), "agrees": (100, 100),
}  # fmt: skip
NOISY: Limits = {**EQUAL, "false, these": (0, 6), "false, such": (0, 6), "family": (0, 6)}
NOISY_WITH_FLOOR: Limits = {
    **EQUAL, "false, these": (0, 5.5), "false, such": (0, 5.5), "family": (0, 5.5)
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One row. `floor` stores the noise of so many launches of the same host before."""

    name: str
    design: Design
    law: Law = field(default_factory=Law)
    floor: int | None = None
    limits: Limits = field(default_factory=lambda: EQUAL)


ALL_LOADS = {"concurrency": (1, 4, 16), "temperature": (0.0, 1.0), "budget": (7, 15)}
GREEDY = {"temperature": (0.0,)}
QUICKSTART = Law(Workload(lengths="replayed"))
LONG = Law(Workload(prompts=128, long=(3, 20.0)))


def _restarts(**settings: float | bool | Outliers) -> Law:
    return Law(restarts=replace(Restarts(), **settings))


_SLOW = Outliers(share=0.1, size=0.15)
_LATER = Restarts(saw=0.02)

ISSUE = (
    Case("quickstart, T=1, c=16, 1 x 1", Design(1, 1, (16,)), QUICKSTART),
    Case("quickstart, T=1, c=16, 5 x 3", Design(5, 3, (16,)), QUICKSTART),
    Case("quickstart, 12 cells, 1 x 1", Design(1, 1, **ALL_LOADS), QUICKSTART),
    Case("quickstart, 12 cells, 3 x 1", Design(3, 1, **ALL_LOADS), QUICKSTART),
    Case("128 prompts, c=16, 3 are 20 times longer, 1 x 1", Design(1, 1, (16,)), LONG),
    Case("the same, T=0, 3 x 1", Design(3, 1, (16,), (0.0,)), LONG),
    Case("the same, T=1, 3 x 1", Design(3, 1, (16,)), LONG),
    Case("launch sd 3 %, T=0, 3 x 1", Design(3, 1, **GREEDY), _restarts(sd=0.03), None, NOISY),
    Case("launch sd 3 %, T=0, 5 x 1", Design(5, 1, **GREEDY), _restarts(sd=0.03), None, NOISY),
    Case("launch sd 3 %, T=1, 3 x 1", Design(3, 1), _restarts(sd=0.03), None, NOISY),
    Case(
        "launch sd 3 %, T=0, 3 x 1, floor", Design(3, 1, **GREEDY), _restarts(sd=0.03), 10,
        NOISY_WITH_FLOOR,
    ),
    Case(
        "launch sd 3 %, T=0, 5 x 1, floor", Design(5, 1, **GREEDY), _restarts(sd=0.03), 10,
        NOISY_WITH_FLOOR,
    ),
    Case("1 launch in 10 is 15 % slow, 1 x 1", Design(1, 1, **GREEDY), _restarts(outliers=_SLOW)),
    Case("1 launch in 10 is 15 % slow, 3 x 1", Design(3, 1, **GREEDY), _restarts(outliers=_SLOW)),
    Case("1 launch in 10 is 15 % slow, 5 x 3", Design(5, 3, **GREEDY), _restarts(outliers=_SLOW)),
    Case(
        "B always later, 2 % slower by then, 3 x 3", Design(3, 3, **GREEDY, order="ABAB"),
        Law(restarts=_LATER),
    ),
    Case(
        "A A A B B B, slows by 2 % in all, 3 x 3", Design(3, 3, **GREEDY, order="AABB"),
        _restarts(drift=0.02),
    ),
    Case("T=1, c=1, 3 x 1", Design(3, 1, (1,))),
)  # fmt: skip
"""The rows of the issue: what the comparison said before, and must not say."""

_THREE, _FIVE = Design(3, 1, **GREEDY), Design(5, 1, **GREEDY)
FRESH = (
    Case("launch sd 0.3 %, 3 x 1", _THREE, _restarts(sd=0.003)),
    Case("launch sd 1 %, 3 x 1", _THREE),
    Case("launch sd 2 %, 3 x 1", _THREE, _restarts(sd=0.02)),
    Case("launch sd 4 %, 3 x 1", _THREE, _restarts(sd=0.04), None, NOISY),
    Case("launch sd 4 %, 3 x 1, floor", _THREE, _restarts(sd=0.04), 10, NOISY_WITH_FLOOR),
    Case("launch sd 2 %, 12 cells, 5 x 1", Design(5, 1, **ALL_LOADS), _restarts(sd=0.02)),
    Case("launches of a t(3) law, 1 %, 5 x 1", _FIVE, _restarts(df=3.0)),
    Case("launches skewed to the slow side, 2 %, 5 x 1", _FIVE, _restarts(sd=0.02, skewed=True)),
    Case("1 launch in 5 is 8 % slow, 3 x 1", _THREE, _restarts(outliers=Outliers(0.2, 0.08))),
    Case("1 launch in 5 is 8 % slow, 5 x 1", _FIVE, _restarts(outliers=Outliers(0.2, 0.08))),
    Case("1 launch in 20 is 40 % slow, 3 x 1", _THREE, _restarts(outliers=Outliers(0.05, 0.4))),
    Case("1 launch in 10 is 12 % fast, 3 x 1", _THREE, _restarts(outliers=Outliers(0.1, -0.12))),
    Case("1 launch in 4 is 3 % slow, 5 x 1", _FIVE, _restarts(sd=0.005, outliers=Outliers(0.25, 0.03))),
    Case("neighbouring launches correlated 0.6, 5 x 1", _FIVE, _restarts(ar1=0.6)),
    Case("trials of a launch correlated 0.8, 3 x 3", Design(3, 3, **GREEDY), _restarts(trial_sd=0.012, trial_ar1=0.8)),
    Case("A B B A, slows by 5 % in all, 5 x 1", _FIVE, _restarts(drift=0.05)),
    Case("A B B A, 2 % slower within each round, 3 x 1", _THREE, _restarts(saw=0.02)),
    Case("A B B A, 2 % slower within each round, 4 x 1", Design(4, 1, **GREEDY), _restarts(saw=0.02)),
    Case("a neighbour takes 4 % from some launch on, 5 x 1", _FIVE, _restarts(jump=0.04)),
    Case("a launch is good at one load, bad at another (1 %), 12 cells, 3 x 1", Design(3, 1, **ALL_LOADS), _restarts(cell_sd=0.01)),
    Case("request times of a t(2) law, 5 %, 3 x 3", Design(3, 3, **GREEDY), Law(Workload(request_sd=0.05, request_df=2.0))),
    Case("lengths of a Pareto law, 3 x 1", _THREE, Law(Workload(prompts=96, lengths="pareto"))),
    Case("1 request in 6 thinks 8 times longer, T=1, 3 x 3", Design(3, 3), Law(Workload(lengths="two kinds"))),
    Case("the same, c=8, 64 prompts, 5 x 3", Design(5, 3, (8,)), Law(Workload(prompts=64, lengths="two kinds"))),
    Case("a step grows with the batch, T=1, c=16, 128 prompts, 3 x 1", Design(3, 1, (16,)), Law(Workload(prompts=128), engine=Engine(slowing=0.5))),
    Case("prefills hold up decoding, T=1, c=8, 64 prompts, 3 x 3", Design(3, 3, (8,)), Law(Workload(prompts=64), engine=Engine(slowing=0.3, stall_ms=40.0))),
    Case("8 prompts, T=1, c=1, 3 x 3", Design(3, 3, (1,)), Law(Workload(prompts=8))),
    Case("4 passes of 32 prompts, T=1, c=4, 3 x 1", Design(3, 1), Law(Workload(passes=4))),
    Case("B suits some prompts better (15 %), 3 x 1", _THREE, Law(Workload(suits_sd=0.15))),
    Case("B suits long prompts (10 % a sd), 128 prompts, c=16, 3 x 1", Design(3, 1, (16,), (0.0,)), Law(Workload(prompts=128, suits_sd=0.05, suits_length=0.1))),
    Case("any request fails in 2 %, T=1, 3 x 3", Design(3, 3), Law(faults=Faults(fail_any=0.02))),
    Case("2 launches, launch sd 2 %, 2 x 2", Design(2, 2, **GREEDY), _restarts(sd=0.02)),
    Case("7 launches, launch sd 1 %, 7 x 1", Design(7, 1, **GREEDY)),
)  # fmt: skip
"""Laws chosen afresh: nobody fitted anything to them."""

_FAILS = {"withheld": (95.0, 100.0), "wrong": (0.0, 5.0)}
FAULTS = (
    Case(
        "B fails on replies beyond 300 tokens, T=0, 3 x 1", _THREE,
        Law(faults=Faults(fail_beyond=300.0)), None, _FAILS,
    ),
    Case(
        "B fails on half of the replies beyond 300 tokens, T=1, 3 x 3", Design(3, 3),
        Law(faults=Faults(fail_beyond=300.0, fail_share=0.5)), None, _FAILS,
    ),
    Case(
        "the same, and B is 5 % slower", Design(3, 3, **GREEDY),
        Law(faults=Faults(fail_beyond=300.0, fail_share=0.5), gain=-0.05), None, _FAILS,
    ),
    Case(
        "B's requests are retracted in 3 %, 3 x 3", Design(3, 3, **GREEDY),
        Law(faults=Faults(retract=0.03)), None, {},
    ),
)  # fmt: skip


def power(effect: float, launches: int, trials: int, floor: int | None = None) -> Case:
    """The issue's design for power: 32 prompts, c=4, launch sd 1 %, equal replies (T=0)."""
    return Case(
        f"{100 * effect:g} %, {launches} x {trials}" + (", floor" if floor else ""),
        Design(launches, trials, **GREEDY), Law(gain=effect), floor,
        _POWER.get((effect, launches, trials, floor), {}),
    )  # fmt: skip


_POWER: dict[tuple[float, int, int, int | None], Limits] = {
    (0.05, 3, 3, None): {"found, these": (85, 100), "found, such": (85, 100)},
    (0.05, 3, 1, None): {"found, these": (80, 100), "found, such": (80, 100)},
    (0.02, 5, 1, None): {"found, these": (40, 100), "found, such": (40, 100)},
    (0.02, 5, 3, None): {"found, these": (40, 100), "found, such": (40, 100)},
    (0.0, 5, 3, None): {"alike, these": (35, 100)},
    (0.0, 5, 3, 10): {"alike, these": (40, 100)},
    (0.03, 5, 1, None): {"alike, these": (0, 0.5)},
    (0.03, 5, 3, None): {"alike, these": (0, 0.5)},
    (0.03, 5, 3, 10): {"alike, these": (0, 0.5)},
}
POWER = (
    *(power(effect, r, m) for r, m in ((3, 1), (3, 3), (5, 1), (5, 3))
      for effect in (0.0, 0.02, 0.03, 0.05, 0.10)),
    *(power(effect, 5, 3, 10) for effect in (0.0, 0.02, 0.03)),
    *(
        Case(f"{100 * gain:g} %, T=1, 4 passes, 5 x 3", Design(5, 3),
             Law(Workload(passes=4), gain=gain), None, {})
        for gain in (0.0, 0.05)
    ),
)  # fmt: skip

_FAMILY = Design(3, 1, **ALL_LOADS)
_ENOUGH = Design(3, 1, (1, 2, 4), (0.0, 1.0), (7, 15))
_POOLED: Limits = {"wrong": (0, 5), "covers, these": (94, 100), "covers, such": (94, 100)}
_KIND: Limits = {**_POOLED, "covers, kind": (93, 100)}
POOLED = (
    Case("no effect anywhere, 3 x 1", _FAMILY, Law(), None, _KIND),
    Case("no effect anywhere, 1 x 1", Design(1, 1, **ALL_LOADS), Law(), None, _KIND),
    Case("no effect, launch sd 3 %, 3 x 1", _FAMILY, _restarts(sd=0.03), None,
         {**_KIND, "wrong": (0, 6), "covers, these": (93, 100)}),
    Case("no effect, a launch differs by load (1 %), 5 x 1", Design(5, 1, **ALL_LOADS), _restarts(cell_sd=0.01), None, _KIND),
    Case("0 % on average, cells differ by 5 %, 3 x 3", Design(3, 3, **ALL_LOADS), Law(gain_sd=0.05), None, _KIND),
    Case("5 % everywhere, 3 x 1", _FAMILY, Law(gain=0.05), None, {**_KIND, "right": (50, 100)}),
    Case("the same, c = 1, 2, 4: 8 requests a slot", _ENOUGH, Law(gain=0.05), None, {**_KIND, "right": (80, 100)}),
    Case("5 % on average, cells differ by 2 %, 3 x 3", Design(3, 3, **ALL_LOADS), Law(gain=0.05, gain_sd=0.02), None, {**_KIND, "right": (50, 100)}),
    Case("20 % at c=1, -20 % at c=16, 5 x 3", Design(5, 3, **ALL_LOADS), Law(gains={1: 0.2, 4: 0.0, 16: -0.2}), None, {"mixed": (80, 100)}),
)  # fmt: skip

_CROSSES = Design(5, 3, (1, 2, 4, 8), (0.0,))
CROSSINGS = (
    Case("10, 5, -5, -10 % at c = 1, 2, 4, 8", _CROSSES,
         Law(gains={1: 0.10, 2: 0.05, 4: -0.05, 8: -0.10}), None,
         {"stated": (80, 100), "wrong": (0, 5), "covers": (90, 100)}),
    Case("the same, 3 x 1", replace(_CROSSES, launches=3, trials=1),
         Law(gains={1: 0.10, 2: 0.05, 4: -0.05, 8: -0.10}), None,
         {"wrong": (0, 5), "covers": (90, 100)}),
    Case("-4, -1, 1, 4 %", _CROSSES, Law(gains={1: -0.04, 2: -0.01, 4: 0.01, 8: 0.04}), None,
         {"wrong": (0, 5), "covers": (90, 100)}),
    Case("no effect anywhere", _CROSSES, Law(), None, {"stated": (0, 5)}),
    Case("no effect anywhere, 1 x 1", replace(_CROSSES, launches=1, trials=1), Law(), None,
         {"stated": (0, 5)}),
    Case("10, 5, 2, 1 %: never", _CROSSES, Law(gains={1: 0.10, 2: 0.05, 4: 0.02, 8: 0.01}), None,
         {"stated": (0, 5)}),
    Case("10, 5, 0, 0 %: to none", _CROSSES, Law(gains={1: 0.10, 2: 0.05, 4: 0.0, 8: 0.0}), None,
         {"stated": (0, 5)}),
)  # fmt: skip

_ADVISED: Limits = {"right": (70, 100)}
ADVICE = (
    *(
        Case(f"{100 * gain:g} %, launch sd {100 * sd:g} %, after {r} x {m}",
             Design(r, m, **GREEDY), Law(gain=gain, restarts=Restarts(sd=sd)), None, _ADVISED)
        for gain, sd, r, m in ((0.03, 0.01, 2, 1), (0.03, 0.01, 3, 1), (0.02, 0.01, 3, 3),
                               (0.05, 0.02, 2, 1), (0.05, 0.02, 3, 1), (0.05, 0.01, 1, 1))
    ),
    Case("0 %, launch sd 1 %, after 3 x 1", Design(3, 1, **GREEDY), Law(), None, _ADVISED),
    Case("5 %, T=1, 32 prompts, after 3 x 3", Design(3, 3), Law(gain=0.05), None, _ADVISED),
    Case("5 %, B suits prompts by 15 %, after 3 x 1", Design(3, 1, **GREEDY),
         Law(Workload(suits_sd=0.15), gain=0.05), None, _ADVISED),
    Case("3 %, 6 cells of one launch, after 3 x 1",
         Design(3, 1, (1, 2, 4), (0.0,), (7, 15)), Law(gain=0.03), None, _ADVISED),
)  # fmt: skip

_BOLD: Limits = {"bold": (-100, 5)}  # a probability that is said too low misleads nobody
BEST = (
    Case("4 servers within 2 %, T=0, c=4, 3 x 3", Design(3, 3, budget=(7, 15), **GREEDY),
         Law(gain_sd=0.02, budget_sd=0.02), None, _BOLD),
    Case("4 servers within 2 %, quickstart, T=1, c=16, 1 x 1", Design(1, 1, (16,), budget=(7, 15)),
         Law(Workload(lengths="replayed"), gain_sd=0.02, budget_sd=0.02), None, _BOLD),
    Case("4 servers within 5 %, T=1, c=4, 3 x 1", Design(3, 1, budget=(7, 15)),
         Law(gain_sd=0.05, budget_sd=0.05), None, _BOLD),
    Case("4 servers within 3 %, launch sd 3 %, 3 x 1", Design(3, 1, budget=(7, 15), **GREEDY),
         Law(gain_sd=0.03, budget_sd=0.03, restarts=Restarts(sd=0.03)), None, _BOLD),
    Case("4 servers within 3 %, 1 launch in 10 is 15 % slow, 3 x 1",
         Design(3, 1, budget=(7, 15), **GREEDY),
         Law(gain_sd=0.03, budget_sd=0.03, restarts=Restarts(outliers=_SLOW)), None, _BOLD),
    Case("4 servers within 3 %, launches of a t(3) law, 1 x 1",
         Design(1, 1, budget=(7, 15), **GREEDY),
         Law(gain_sd=0.03, budget_sd=0.03, restarts=Restarts(df=3.0)), None, _BOLD),
)  # fmt: skip
