"""Score tests of sampled tokens against known conditionals.

For any g fixed by the past, D_t = g(x_t) - E_p g is a martingale difference with the exact
variance V_t = Var_p g, so sum D / sqrt(sum V) tends to N(0, 1) by the martingale central limit
theorem. Neither independence of tokens nor a sample of plain decoding is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from specbench.verify.statistics.shaping import Atoms
from specbench.verify.statistics.tokens import Bools, Floats, Ints

# Below this information the normal limit is not trusted and no p-value is given.
MIN_VARIANCE = 10.0
# From this probability on, a context is settled: its token is no choice.
SETTLED = 0.98


@dataclass(frozen=True, slots=True)
class Score:
    """Martingale differences and their variances, one a token."""

    difference: Floats
    variance: Floats

    @property
    def z(self) -> float:
        """The standardised sum; NaN without any variance."""
        total = float(self.variance.sum())
        return float(self.difference.sum()) / math.sqrt(total) if total > 0 else math.nan

    @property
    def p(self) -> float | None:
        """Two-sided p-value, or None where the variance is too small for the normal limit."""
        if float(self.variance.sum()) < MIN_VARIANCE:
            return None
        return float(2 * stats.norm.sf(abs(self.z)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """An effect with the half-width of its interval at `level`."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """Lower end."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.value + self.half_width

    def inside(self, margin: float) -> bool:
        """Whether the whole interval lies within plus or minus `margin` of zero."""
        return self.low > -margin and self.high < margin


def log_likelihood(atoms: Atoms) -> Score:
    """G = log p: the score of an exponential tilt, that is, of another temperature."""
    return score_of(atoms, np.log(np.where(atoms.probs > 0, atoms.probs, 1.0)))


def score_of(atoms: Atoms, g: Floats) -> Score:
    """Return the score of any function (n, K+1) of the atoms: the tilt p e^(t g) at t = 0."""
    mean = (atoms.probs * g).sum(axis=1)
    second = (atoms.probs * g**2).sum(axis=1)
    chosen = g[np.arange(len(atoms)), atoms.chosen]
    return Score(chosen - mean, np.maximum(second - mean**2, 0.0))


def temperature_error_pct(score: Score, level: float) -> Estimate:
    """How much the effective temperature differs from the one asked for, in percent.

    One step of Fisher scoring from beta = 1 in p^beta gives beta = 1 + sum D / sum V with standard
    error 1 / sqrt(sum V); the effective temperature is T / beta.
    """
    information = float(score.variance.sum())
    if information <= 0:
        return Estimate(math.nan, math.inf)
    beta = max(1.0 + float(score.difference.sum()) / information, 0.05)
    width = float(stats.norm.isf((1 - level) / 2)) / math.sqrt(information)
    return Estimate(100 * (1 / beta - 1), 100 * width / beta**2)


def favourite(atoms: Atoms) -> Score:
    """G = 1{the likeliest token}: the score of a mixture with greedy decoding."""
    top = atoms.probs[:, 0]
    return Score((atoms.chosen == 0) - top, top * (1 - top))


def excess_greedy_pct(atoms: Atoms, level: float) -> Estimate:
    """Return the share of tokens taken greedily instead of sampled, in percent (unbiased)."""
    score = favourite(atoms)
    room = float((1 - atoms.probs[:, 0]).sum())
    if room <= 0:
        return Estimate(math.nan, math.inf)
    error = math.sqrt(float(score.variance.sum())) / room
    value = float(score.difference.sum()) / room
    return Estimate(100 * value, 100 * float(stats.norm.isf((1 - level) / 2)) * error)


def tail(atoms: Atoms) -> Score:
    """G = 1{a token beyond the K likeliest}: garbage shows here."""
    mass = atoms.probs[:, -1]
    return Score((atoms.chosen == atoms.probs.shape[1] - 1) - mass, mass * (1 - mass))


def rank_table(atoms: Atoms) -> float | None:
    """p-value of observed against expected counts of ranks {1, 2, 3-4, 5-8, 9-K, tail}.

    Chi-squared with the exact covariance sum(diag(e) - e e'); cells with variance below 3 are
    dropped. None where fewer than two cells remain.
    """
    expected, observed = rank_cells(atoms)
    covariance = np.diag(expected.sum(axis=0)) - expected.T @ expected
    keep = np.diag(covariance) >= 3.0
    if keep.sum() < 2:
        return None
    gap = (observed - expected).sum(axis=0)[keep]
    block = covariance[np.ix_(keep, keep)]
    statistic = float(gap @ np.linalg.pinv(block, rcond=1e-9) @ gap)
    return float(stats.chi2.sf(statistic, np.linalg.matrix_rank(block, tol=1e-6 * block.max())))


def pit(atoms: Atoms, rng: np.random.Generator) -> Floats:
    """Randomised probability integral transform: uniform on (0, 1), or NaN for a settled token.

    Where one token holds nearly all the mass the transform is this function's own coin and says
    nothing about the server; such contexts would only dilute the tests.
    """
    columns = np.arange(atoms.probs.shape[1])
    better = np.where(columns < atoms.chosen[:, None], atoms.probs, 0.0).sum(axis=1)
    own = atoms.probs[np.arange(len(atoms)), atoms.chosen]
    transform = np.clip(better + rng.random(len(atoms)) * own, 0.0, 1.0)
    uniforms: Floats = np.where(atoms.probs.max(axis=1, initial=0.0) < SETTLED, transform, np.nan)
    return uniforms


def pit_uniformity(uniforms: Floats, bins: int = 20) -> float | None:
    """Chi-squared p-value of the transform's histogram; None below ten expected a bin."""
    uniforms = uniforms[~np.isnan(uniforms)]
    if len(uniforms) < 10 * bins:
        return None
    counts = np.bincount(np.minimum((uniforms * bins).astype(int), bins - 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


def serial(atoms: Atoms, uniforms: Floats, lag: int) -> Score:
    """Products of centred transforms `lag` apart in a request: coins that are used twice."""
    same = (atoms.request[lag:] == atoms.request[:-lag]) & (
        atoms.position[lag:] == atoms.position[:-lag] + lag
    )
    product = ((uniforms[lag:] - 0.5) * (uniforms[:-lag] - 0.5))[same] * 12.0
    product = product[~np.isnan(product)]
    return Score(product, np.ones(len(product)))


def stop_token(atoms: Atoms, stop_rank: Ints) -> Score:
    """G = 1{a stop token}; `stop_rank` is its atom in each row, -1 where it is not known."""
    known = stop_rank >= 0
    mass = atoms.probs[known, stop_rank[known]]
    return Score((atoms.chosen[known] == stop_rank[known]) - mass, mass * (1 - mass))


def profile(score: Score, round_index: Ints, depth: int = 8) -> dict[int, float]:
    """Z of a score by place within the verify round; deeper places are pooled in the last.

    The k-th token of a round, given that the round got that far, follows p; the token given that
    it was the bonus does not. Hence strata by place, never by accepted or bonus.
    """
    place = np.minimum(round_index, depth)
    return {
        int(k): Score(score.difference[place == k], score.variance[place == k]).z
        for k in np.unique(place[place >= 0])
        if float(score.variance[place == k].sum()) >= MIN_VARIANCE
    }


def rank_cells(atoms: Atoms) -> tuple[Floats, Floats]:
    """Return expected and observed counts (n, cells) of ranks {1, 2, 3-4, 5-8, 9-K, tail}."""
    edges = np.array([0, 1, 2, 4, 8])
    last = atoms.probs.shape[1] - 1
    starts = np.append(edges[edges < last], last)
    expected = np.add.reduceat(atoms.probs, starts, axis=1)
    cell = np.searchsorted(starts, atoms.chosen, side="right") - 1
    observed: Bools = cell[:, None] == np.arange(len(starts))
    return expected, observed.astype(float)
