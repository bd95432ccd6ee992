"""Why one arm is faster: tokens a step, time a step, and what is left."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from specbench.analysis.metrics import METRICS
from specbench.analysis.pairing import Paired, pairs_of, row_pairs
from specbench.analysis.totals import Totals
from specbench.stats.effect import CONFIDENCE, Effect, Variance
from specbench.stats.family import cell_member, group_of
from specbench.stats.launches import ACCEPTANCE, LaunchPrior, Pairs, noise_of

WORTH = 0.03
"""A gain in acceptance below 3 % is not worth a sentence on where it went."""


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio b/a with its interval, for this workload; it holds in all cells together."""

    ratio: float
    low: float
    high: float


class Decomposition(msgspec.Struct, frozen=True, kw_only=True):
    """Speed-up = accept_len x step_rate x remainder, exactly, in every trial.

    With tok_s = accept_len / step_time x (tokens emitted beside the steps of one request at a
    time): `step_rate` is the inverse ratio of step_ms, `remainder` is batching, queueing, prefill
    and idle time. `bound` is the speed-up that acceptance and step time alone would give,
    `accept_bound` the one of acceptance at the other arm's step time.
    """

    speedup: Factor
    accept_len: Factor
    step_rate: Factor
    remainder: Factor
    bound: float
    accept_bound: float
    reading: str

    @property
    def step_time_ratio(self) -> float:
        """How much longer a step takes."""
        return 1 / self.step_rate.ratio


def decompose(
    totals: Totals, paired: Paired, values: Mapping[str, Mapping[str, float]], prior: LaunchPrior,
    cells: int,
) -> Decomposition | None:  # fmt: skip
    """Decompose the ratio of throughput of two matched groups of trials.

    `values` are the columns tok_s, accept_len and step_ms by trial_id. The intervals hold together
    in `cells` cells. None where accept_len or step_ms was not measured on a side.
    """
    names = ("tok_s", "accept_len", "step_ms")
    trials = (*paired.a, *paired.b)
    shown = [t for t in trials if all((values[name].get(t) or 0) > 0 for name in names)]
    speed, accept, step = _three(totals, paired, dict.fromkeys(shown, 1.0))
    if not len(speed.value) or len({len(one.value) for one in (speed, accept, step)}) > 1:
        rows = [{t: values[name][t] for t in shown} for name in names]
        speed, accept, step = (row_pairs(paired, one) for one in rows)
    if not len(speed.value):
        return None
    parts = {
        "tok_s": speed,
        "accept_len": accept,
        "step_rate": _sum((-1, step)),
        "remainder": _sum((1, speed), (-1, accept), (1, step)),
    }
    effects = {
        name: _effect(pairs, ACCEPTANCE if name == "accept_len" else prior)
        for name, pairs in parts.items()
    }
    confidence = 1 - (1 - CONFIDENCE) / cells
    return Decomposition(
        speedup=factor(effects["tok_s"], confidence),
        accept_len=factor(effects["accept_len"], confidence),
        step_rate=factor(effects["step_rate"], confidence),
        remainder=factor(effects["remainder"], confidence),
        bound=math.exp(effects["accept_len"].value + effects["step_rate"].value),
        accept_bound=math.exp(effects["accept_len"].value),
        reading=_reading(effects),
    )


def _three(
    totals: Totals, paired: Paired, shown: Mapping[str, float]
) -> tuple[Pairs, Pairs, Pairs]:
    speed, accept, step = (METRICS[name] for name in ("tok_s", "accept_len", "step_ms"))
    return (
        pairs_of(speed, totals, paired, shown),
        pairs_of(accept, totals, paired, shown),
        pairs_of(step, totals, paired, shown),
    )


def factor(effect: Effect, confidence: float = CONFIDENCE) -> Factor:
    """Render an effect on the log scale as a ratio with its interval."""
    low, high = effect.ratio_interval(confidence)
    return Factor(ratio=effect.ratio, low=low, high=high)


def _effect(pairs: Pairs, prior: LaunchPrior) -> Effect:
    noise = noise_of(pairs)
    group = group_of([pairs], [noise], prior)
    return cell_member(pairs, noise, group, 0, such=False).effect


def _sum(*terms: tuple[int, Pairs]) -> Pairs:
    """Add log ratios, and with them the shares of prompts in them."""
    first = terms[0][1]
    shares = [sign * one.share for sign, one in terms if one.share is not None]
    met = [one.met for _, one in terms if one.met is not None]
    value = np.sum([sign * one.value for sign, one in terms], axis=0)
    if not shares:
        widest = max((one.unseen.value for _, one in terms if one.unseen), default=0.0)
        return Pairs(launch=first.launch, value=value, unseen=Variance(value=widest))
    return Pairs(
        launch=first.launch,
        value=value,
        share=np.sum(shares, axis=0),
        met=np.any(met, axis=0),
    )


def _reading(effects: dict[str, Effect]) -> str:
    """Say in a sentence where the time went."""
    accept, step, rest = (effects[n] for n in ("accept_len", "step_rate", "remainder"))
    parts = [
        f"accept_len {_change(accept.value)}",
        f"time a step {_change(-step.value)}",
        f"batching, queueing and prefill {_change(rest.value)}",
    ]
    total = f"tok_s {_change(effects['tok_s'].value)}: " + ", ".join(parts)
    losses = {"longer steps": step.value, "batching, queueing and prefill": rest.value}
    worst = min(losses, key=lambda name: losses[name])
    if accept.value < WORTH or losses[worst] > -0.25 * accept.value:
        return total
    share = -100 * losses[worst] / accept.value
    told = "all" if share >= 95 else f"{share:.0f} %"
    return f"{total}; {worst} take {told} of what acceptance gains"


def _change(log_ratio: float) -> str:
    return f"{100 * math.expm1(log_ratio):+.1f} %"
