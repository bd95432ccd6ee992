"""A betting test that may be read at any time: the e-process against a family of alternatives.

E_n = mean over k of prod_t q_k(x_t) / p(x_t). Under losslessness E is a non-negative
supermartingale with E_0 = 1, so it exceeds 1/alpha at any time with probability at most alpha
(Ville 1939). It stops early on a fault; it never proves losslessness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specbench.verify.statistics.shaping import Atoms
from specbench.verify.statistics.tokens import Floats

_TILTS = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
_GREEDY = (0.02, 0.1, 0.5)
_TAIL = (0.003, 0.03)
_UNIFORM = 0.003


@dataclass(frozen=True, slots=True)
class EProcess:
    """`log_max` is the largest log E; `crossed_at` the number of tokens when it passed, or None."""

    log_max: float
    crossed_at: int | None
    best: str


def e_process(atoms: Atoms, token_logp: Floats | None, vocab: int, alpha: float) -> EProcess:
    """Bet on `atoms` in order; `token_logp` (unlumped, None under a filter) allows a uniform bet.

    `vocab` must be no smaller than the vocabulary, else the uniform bet is not a distribution.
    """
    if len(atoms) == 0:
        return EProcess(0.0, None, "")
    bets = _log_ratios(atoms)
    if token_logp is not None:
        ratio = (1 - _UNIFORM) + _UNIFORM / (vocab * np.exp(np.maximum(token_logp, -60.0)))
        bets["uniform"] = np.log(ratio)
    paths = np.cumsum(np.stack(list(bets.values())), axis=1)
    top = paths.max(axis=0)
    log_e = top + np.log(np.exp(paths - top).mean(axis=0))
    over = np.flatnonzero(log_e >= -math.log(alpha))
    best = list(bets)[int(paths[:, -1].argmax())]
    return EProcess(float(log_e.max()), int(over[0]) + 1 if len(over) else None, best)


def _log_ratios(atoms: Atoms) -> dict[str, Floats]:
    probs, n = atoms.probs, len(atoms)
    rows = np.arange(n)
    own = probs[rows, atoms.chosen]
    bets: dict[str, Floats] = {}
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    for tau in _TILTS:
        tilted = np.where(probs > 0, logs / tau, -np.inf)
        peak = tilted.max(axis=1)
        norm = peak + np.log(np.exp(tilted - peak[:, None]).sum(axis=1))
        bets[f"temperature x{tau}"] = tilted[rows, atoms.chosen] - norm - np.log(own)
    for share in _GREEDY:
        bets[f"greedy {share}"] = np.log((1 - share) + share * (atoms.chosen == 0) / own)
    bets["second rank"] = np.log(0.95 + 0.05 * (atoms.chosen == 1) / own)
    has_tail = probs[:, -1] > 0
    in_tail = atoms.chosen == probs.shape[1] - 1
    for share in _TAIL:
        mixed = np.log((1 - share) + share * in_tail / own)
        bets[f"tail {share}"] = np.where(has_tail, mixed, 0.0)
    return bets
