"""How a sampler composed top_k with top_p: jointly, or one after the other.

Jointly (FlashInfer's default, and SGLang's plain decoding): both are decided on the whole
distribution. In sequence (SGLang's verification, vLLM, Hugging Face): top_p is decided on what
top_k has left and renormalised, so its nucleus is smaller. The tokens that only the joint
composition allows are the band between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from specbench.verify.statistics.shaping import NUCLEUS_EDGE
from specbench.verify.statistics.tokens import Bools, Floats, Ints, ScoredTokens


@dataclass(frozen=True, slots=True)
class Band:
    """Rows whose band is known and clear of noise: `row` of the table, and the band's mass there.

    `mass` is the band's probability under the joint composition; `first` and `last` are its ranks.
    """

    row: Ints
    mass: Floats
    first: Ints
    last: Ints

    def hits(self, ranks: Ints) -> Bools:
        """Whether tokens of these ranks, one a row of the band, lie in it."""
        inside: Bools = (ranks >= self.first) & (ranks <= self.last)
        return inside


@dataclass(frozen=True, slots=True)
class Composed:
    """`hits` of `n` tokens in the band where `due` are expected from the joint composition."""

    n: int
    hits: int
    due: float

    @property
    def p_joint(self) -> float:
        """Two-sided p-value of the joint composition: a Poisson tail, wider than the exact one."""
        lower = float(stats.poisson.cdf(self.hits, self.due))
        upper = float(stats.poisson.sf(self.hits - 1, self.due))
        return min(1.0, 2 * min(lower, upper))

    @property
    def in_sequence(self) -> bool:
        """Whether the band is as good as empty though many tokens are due in it."""
        return self.due >= LEAST_DUE and self.hits <= 0.05 * self.due


# From here on an empty band is no accident: its probability is e^-8 or less.
LEAST_DUE = 8.0


def find_band(tokens: ScoredTokens, top_k: int, top_p: float) -> Band:
    """Return the band at each token of temperature-1 requests with both filters.

    Left out, by conditions on the context alone: rows where an edge of either nucleus lies within
    NUCLEUS_EDGE of the threshold, and rows without a band.

    Raises:
        ValueError: top_k reaches beyond the known ranks.

    """
    if not 0 < top_k <= tokens.top_ids.shape[1]:
        raise ValueError(f"top_k {top_k} is not within the {tokens.top_ids.shape[1]} known ranks")
    probs = np.exp(np.where(np.isnan(tokens.top_logp), -np.inf, tokens.top_logp))[:, :top_k]
    mass = np.cumsum(probs, axis=1)
    whole = np.maximum(mass[:, -1:], 1e-12)
    before, clear = mass - probs, np.ones(len(tokens), bool)
    for edge in (mass, mass / whole):
        # The last rank's edge is that of top_k, which both compositions share.
        clear &= (np.abs(edge[:, :-1] - top_p) >= NUCLEUS_EDGE).all(axis=1)
    joint, sequence = before <= top_p, before / whole <= top_p
    band = joint & ~sequence
    share = (probs * band).sum(axis=1) / (probs * joint).sum(axis=1)
    row = np.flatnonzero(clear & band.any(axis=1))
    inside = band[row]
    return Band(
        row=row,
        mass=share[row],
        first=inside.argmax(axis=1),
        last=top_k - 1 - inside[:, ::-1].argmax(axis=1),
    )


def compose(band: Band, ranks: Ints) -> Composed:
    """Count tokens in the band; `ranks` are those of the tokens at `band.row`, in order."""
    return Composed(len(ranks), int(band.hits(ranks).sum()), float(band.mass.sum()))
