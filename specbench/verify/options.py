"""How much is asked of a server, and how small an effect must be ruled out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from specbench.verify.statistics.coverage import CoverageRule
from specbench.verify.statistics.sampled import SampledMargins
from specbench.verify.statistics.shaping import Filters

BudgetName = Literal["quick", "default", "deep"]

S1 = Filters()
HOT = Filters(temperature=2.5, top_k=8)
WARM = Filters(temperature=0.6, top_k=20)
NUCLEUS = Filters(top_p=0.8)


@dataclass(frozen=True, slots=True)
class DrawSizes:
    """Sizes of the stages where the server gives no scores: everything is drawn, nothing known.

    `limit` bounds all generated tokens; greedy stages are numbers of requests of `length` tokens,
    each of which costs one probe a token; `nodes` are the open contexts; `waves` are draws a
    context and side in each wave of T=1, T=2.5 with top_k=8 and T=0.6 (none: an empty tuple);
    `filtered` are draws a context and side under a filter.
    """

    limit: int
    t_eff_pct: float
    excess_greedy_pct: float
    garbage_pct: float
    length: int = 40
    alone: int = 8
    batched: int = 24
    kernel: int = 16
    long: int = 1
    turns: int = 4
    mixed: int = 0
    soak: int = 0
    penalties: int = 4
    nodes: int = 24
    one: tuple[int, ...] = (48,)
    hot: tuple[int, ...] = (40,)
    warm: tuple[int, ...] = ()
    filtered: int = 0
    again: int = 1


_SMALL = 50_000
QUICK_DRAWS = DrawSizes(limit=24_000, t_eff_pct=20.0, excess_greedy_pct=20.0, garbage_pct=0.5)
DEFAULT_DRAWS = DrawSizes(
    limit=120_000,
    t_eff_pct=8.0,
    excess_greedy_pct=10.0,
    garbage_pct=0.15,
    alone=16,
    batched=48,
    kernel=24,
    long=4,
    turns=8,
    mixed=8,
    soak=16,
    penalties=8,
    one=(48, 48, 48, 48, 48, 48),
    hot=(48, 48, 48),
    warm=(48, 48, 48, 48),
    filtered=64,
    again=2,
)
DEEP_DRAWS = replace(
    DEFAULT_DRAWS,
    limit=480_000,
    t_eff_pct=4.0,
    excess_greedy_pct=5.0,
    garbage_pct=0.05,
    alone=48,
    batched=128,
    kernel=64,
    turns=16,
    mixed=24,
    soak=48,
    nodes=48,
    one=(96, 96, 96, 96, 96, 96),
    hot=(96, 96),
    warm=(96, 96, 96),
    filtered=128,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """Sizes of the stages. Tokens are generated ones; scoring is prefill and counted apart.

    `limit` bounds everything with top-up and confirmation; `sampled` gives tokens a
    configuration; the greedy stages are numbers of requests of `length` tokens; `filters` those of
    each probe of a filter; `frozen` is contexts x draws; `composed` are requests with both filters,
    `joint` those of each mix of parameters that act together; `letters` are draws a prompt under a
    grammar;
    `own` and `own_fixed` are tokens and contexts x draws of the user's own parameters; `base` is
    the limit without these; `draws` are the sizes where the server gives no scores.
    """

    limit: int
    margins: SampledMargins
    soft_pct: float
    coverage: CoverageRule
    sampled: tuple[tuple[Filters, int], ...]
    length: int = 96
    alone: int = 8
    batched: int = 24
    kernel: int = 20
    long: int = 2
    turns: int = 4
    mixed: int = 0
    soak: int = 0
    logprobs: int = 12
    coins: tuple[int, int] = (16, 24)
    fixed: tuple[int, int] = (0, 0)
    penalties: int = 4
    filters: int = 4
    composed: int = 0
    joint: int = 0
    letters: int = 0
    own: int = 1500
    own_fixed: tuple[int, int] = (8, 64)
    base: int = 0
    draws: DrawSizes = field(default_factory=lambda: QUICK_DRAWS)

    def at(self, level: str) -> Budget:
        """Return the budget of a level of evidence: its limit, and margins that it can reach."""
        if level == "one_token_scores":
            return self._halved()
        if level != "draws":
            return self
        sizes = self.draws
        margins = SampledMargins(sizes.t_eff_pct, sizes.excess_greedy_pct, sizes.garbage_pct)
        extra = self.limit - self.base if self.base else 0
        return replace(self, limit=sizes.limit + extra, margins=margins, length=sizes.length)

    def _halved(self) -> Budget:
        """Return sizes for scores that cost a request each; margins that these still reach."""
        margins = self.margins
        quick = self.limit < _SMALL
        return replace(
            self,
            limit=self.limit + 7_000 if quick else self.limit,
            margins=replace(
                margins,
                t_eff_pct=1.4 * margins.t_eff_pct,
                excess_greedy_pct=1.5 * margins.excess_greedy_pct,
                garbage_pct=2 * margins.garbage_pct,
            ),
            soft_pct=2 * self.soft_pct,
            sampled=tuple((filters, n * 2 // 3) for filters, n in self.sampled),
            length=min(self.length, 64),
            alone=-(-self.alone // 2),
            batched=max(self.batched // 2, 16),
            kernel=-(-self.kernel // 2),
            mixed=self.mixed // 2,
            soak=self.soak // 2,
            logprobs=-(-self.logprobs // 2),
            joint=self.joint // 2,
            fixed=(self.fixed[0], self.fixed[1] * 3 // 4),
        )

    def with_own(self, own: Filters) -> Budget:
        """Return the budget with one more sampled configuration, and the tokens that it needs."""
        if own in [filters for filters, _ in self.sampled]:
            return self
        contexts, draws = self.own_fixed
        extra = 2 * self.own + 2 * 3 * contexts * draws
        return replace(
            self,
            limit=self.limit + extra,
            base=self.base or self.limit,
            sampled=(*self.sampled, (own, self.own)),
            composed=max(self.composed, 10) if own.top_k and own.top_p < 1 else self.composed,
        )


BUDGETS: dict[BudgetName, Budget] = {
    "quick": Budget(
        limit=13_000,
        margins=SampledMargins(t_eff_pct=20.0, excess_greedy_pct=15.0, garbage_pct=0.3),
        soft_pct=0.5,
        coverage=CoverageRule(rounds=50, rounds_per_depth=3),
        sampled=((S1, 2600), (HOT, 2000)),
        length=72,
    ),
    "default": Budget(
        limit=120_000,
        margins=SampledMargins(t_eff_pct=5.0, excess_greedy_pct=4.0, garbage_pct=0.1),
        soft_pct=0.1,
        coverage=CoverageRule(),
        sampled=((S1, 18_000), (HOT, 12_000), (WARM, 8_000), (NUCLEUS, 8_000)),
        alone=24,
        batched=64,
        kernel=48,
        long=8,
        turns=16,
        mixed=16,
        soak=24,
        logprobs=36,
        coins=(32, 48),
        fixed=(24, 192),
        penalties=8,
        filters=8,
        composed=10,
        joint=16,
        letters=64,
        own=8000,
        own_fixed=(24, 96),
        draws=DEFAULT_DRAWS,
    ),
    "deep": Budget(
        limit=480_000,
        margins=SampledMargins(t_eff_pct=2.5, excess_greedy_pct=2.0, garbage_pct=0.03),
        soft_pct=0.05,
        coverage=CoverageRule(rounds=800, rounds_per_depth=50),
        sampled=((S1, 80_000), (HOT, 48_000), (WARM, 30_000), (NUCLEUS, 32_000)),
        alone=48,
        batched=160,
        kernel=128,
        long=16,
        turns=32,
        mixed=48,
        soak=64,
        logprobs=96,
        coins=(32, 96),
        fixed=(48, 384),
        penalties=16,
        filters=16,
        composed=24,
        joint=48,
        letters=192,
        own=30_000,
        own_fixed=(48, 192),
        draws=DEEP_DRAWS,
    ),
}


def own_filters(
    temperature: float | None, top_k: int = -1, top_p: float = 1.0, min_p: float = 0.0
) -> Filters | None:
    """Return the user's own sampling parameters; None where none were given or they are greedy."""
    filters = Filters(1.0 if temperature is None else temperature, max(top_k, 0), top_p, min_p)
    greedy = filters.temperature == 0.0 or filters.top_k == 1
    return None if greedy or filters == S1 else filters


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What `specbench verify --url` was asked for.

    `expect_lossy` goes on where the server is lossy by configuration (thresholds below 1);
    `fail_fast` ends the run with the first confirmed violation, at the price of the diagnosis;
    `own` are the sampling parameters of the user's production, tested beside the battery's.
    """

    concurrency: int = 16
    budget: BudgetName = "default"
    reference: Path | None = None
    api_key_env: str | None = None
    seed: int = 0
    expect_lossy: bool = False
    fail_fast: bool = False
    own: Filters | None = None
    timeout_s: float = 120.0
    sizes: Budget | None = field(default=None)

    @property
    def plan(self) -> Budget:
        """The budget's sizes, with those of the user's own parameters."""
        sizes = self.sizes or BUDGETS[self.budget]
        return sizes.with_own(self.own) if self.own else sizes
