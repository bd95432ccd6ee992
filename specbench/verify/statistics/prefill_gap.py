"""Verify against prefill: the log-probability that a server reports while it generates.

It sees wrong verify logits even where no token flips: wrong positions, a quantised target in the
verify path, log-probabilities that are not those of the emitted tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbench.verify.statistics.tokens import Floats, ScoredTokens

# Largest gaps that bf16 kernels explain without a control: SGLang's own check allows 0.5 nat,
# and reports 0.25-0.36 between bf16 kernels.
BF16_NAT = 0.5


@dataclass(frozen=True, slots=True)
class Gap:
    """Absolute differences in nat; `n` tokens had a reported log-probability."""

    n: int
    median: float
    q99: float
    worst: float


def gaps(tokens: ScoredTokens) -> Floats:
    """Return |reported while generating - prefill|, where the server reported one."""
    known = ~np.isnan(tokens.output_logp)
    return np.abs(tokens.output_logp[known] - tokens.logp[known])


def summarise(values: Floats) -> Gap:
    """Quantiles of absolute gaps."""
    if len(values) == 0:
        return Gap(0, 0.0, 0.0, 0.0)
    q50, q99 = np.quantile(values, [0.5, 0.99])
    return Gap(len(values), float(q50), float(q99), float(values.max()))


def lies(gap: Gap) -> bool:
    """Whether the reported figures cannot belong to the emitted tokens at all."""
    return gap.n > 0 and (gap.median > BF16_NAT or gap.q99 > 4 * BF16_NAT)


def exceeds(gap: Gap, control: Gap) -> bool:
    """Whether gaps are larger than a plain decoder's (at least 200 tokens on both sides)."""
    if min(gap.n, control.n) < 200:
        return False
    floor = 0.02
    return gap.q99 > 2 * max(control.q99, floor) or gap.worst > 3 * max(control.worst, 3 * floor)
