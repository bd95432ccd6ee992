"""How many launches would decide: counted from what was done, by what is likely to be seen.

The smallest number of launches after which a verdict, at the corrected level, is likely. The true
effect and the launch noise are drawn from what is known of them; the launches made so far stay.
"""

import math

import msgspec
import numpy as np
from scipy.special import stdtrit

from specbench.stats.effect import CONFIDENCE
from specbench.stats.family import EQUIVALENCE, Group, Judged
from specbench.stats.launches import Noise

LIKELY = 0.8
DRAWS = 1000
MOST = 40
CANDIDATES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, MOST)


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """`launches` an arm in all, or None: more than anyone would make, or prompts are the limit."""

    launches: int | None
    prompts_limit: bool


def advised(
    judged: Judged, group: Group, noise: Noise, margin: float, *, such: bool, seed: int = 0
) -> Advice:
    """Advise on one undecided cell; `margin` is the equivalence margin on the log scale."""
    value, se = judged.effect.value, judged.effect.se
    if not math.isfinite(se):
        return Advice(launches=None, prompts_limit=True)
    random = np.random.default_rng(seed)
    done, df = group.launches, group.common.df
    strict = judged.half / max(judged.effect.half_width(CONFIDENCE), 1e-12)
    rest = noise.prompts if such else noise.requests
    truth = value + _error(judged, random)
    launch = group.common.value * done * df / random.chisquare(df, DRAWS)
    one = launch + noise.launch
    for launches in (n for n in CANDIDATES if n > done):
        more = launches - done
        seen = done * value + more * (truth + np.sqrt(one / more) * random.normal(size=DRAWS))
        seen /= launches
        fixed = max(0.0, rest.value - noise.launch / done) if such else 0.0
        known = df + more
        spread = (df * group.common.value * done + launch * random.chisquare(more, DRAWS)) / known
        error = np.sqrt((spread + noise.launch) / launches + fixed)
        half = strict * stdtrit(known, 0.5 + CONFIDENCE / 2) * error
        half_90 = strict * stdtrit(known, 0.5 + EQUIVALENCE / 2) * error
        decided = (np.abs(seen) > half) | (np.abs(seen) + half_90 < margin)
        if float(decided.mean()) >= LIKELY:
            return Advice(launches=launches, prompts_limit=False)
    limit = max(0.0, rest.value - noise.launch / done)
    return Advice(launches=None, prompts_limit=such and limit > noise.launch / MOST)


def _error(judged: Judged, random: np.random.Generator) -> np.ndarray:
    """Draw the error of what was seen; a single launch may have been off."""
    effect = judged.effect
    error = effect.se * random.standard_t(min(effect.df, 1e6), DRAWS)
    if effect.outlying is not None:
        off = random.random(DRAWS) < effect.outlying.share
        error = error + off * random.normal(0.0, effect.outlying.sd, DRAWS)
    return error
