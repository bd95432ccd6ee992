"""Why one arm is faster: tokens a step, time a step, and what is left."""

import math

import msgspec
import pandas as pd

from specbench.stats.effect import Effect
from specbench.stats.nesting import Allowance, Launches, launch_effect

ACCEPTANCE = Allowance(sd=0.003, df=3.0, source="default: 0.3 % in accept_len between launches")
"""Acceptance depends on texts, not on clocks: near-tie flips after a restart move it a little."""

ACCEPTANCE_TRIAL = Allowance(sd=0.002, df=3.0, source="default: 0.2 % in accept_len between trials")


PARTS = ("tok_s", "accept_len", "step_rate", "remainder")

WORTH = 0.03
"""A gain in acceptance below 3 % is not worth a sentence on where it went."""


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio b/a with its 95 % interval, for this workload."""

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


def decompose(
    a: pd.DataFrame, b: pd.DataFrame, *, restart: Allowance, trial: Allowance
) -> Decomposition | None:
    """Decompose the ratio of tok_s of two matched groups of trials.

    None where accept_len or step_ms was not measured on a side.
    """
    parts = [_parts(side) for side in (a, b)]
    if not all(part["tok_s"] for part in parts):
        return None
    effects = {
        name: launch_effect(
            parts[0][name],
            parts[1][name],
            restart=ACCEPTANCE if name == "accept_len" else restart,
            trial=ACCEPTANCE_TRIAL if name == "accept_len" else trial,
        )
        for name in PARTS
    }
    return Decomposition(
        speedup=factor(effects["tok_s"]),
        accept_len=factor(effects["accept_len"]),
        step_rate=factor(effects["step_rate"]),
        remainder=factor(effects["remainder"]),
        bound=math.exp(effects["accept_len"].value + effects["step_rate"].value),
        accept_bound=math.exp(effects["accept_len"].value),
        reading=_reading(effects),
    )


def factor(effect: Effect) -> Factor:
    """Render an effect on the log scale as a ratio with its interval."""
    low, high = effect.ratio_interval()
    return Factor(ratio=effect.ratio, low=low, high=high)


def _parts(trials: pd.DataFrame) -> dict[str, Launches]:
    """Log of each part by launch and trial, of the rows in which all three were measured."""
    names = ("block_id", "tok_s", "accept_len", "step_ms")
    logs: dict[str, dict[str, list[float]]] = {name: {} for name in PARTS}
    for block, *row in zip(*(trials[name].tolist() for name in names), strict=True):
        if not all(value is not None and value > 0 for value in row):  # NaN is not above 0
            continue
        speed, accept, step = row
        rate = 1000.0 / step
        for name, value in zip(PARTS, (speed, accept, rate, speed / (accept * rate)), strict=True):
            logs[name].setdefault(block, []).append(math.log(value))
    return {name: [of[block] for block in sorted(of)] for name, of in logs.items()}


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
