"""Are coins shared between requests? Equal prompts side by side, group by equal prefix.

Requests that emitted the same tokens so far have the same conditional distribution, so the number
of pairs that agree on the next token has a known mean and variance if coins are independent. The
sum over steps of (pairs - mean) is a martingale. Marginal tests cannot see this fault: with one
coin for the whole batch every request on its own is distributed exactly right.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from specbench.verify.statistics.scores import Score
from specbench.verify.statistics.shaping import Atoms
from specbench.verify.statistics.tokens import ScoredTokens


def agreement(tokens: ScoredTokens, atoms: Atoms) -> Score:
    """Excess pairs of equal tokens among requests of one prompt with equal prefixes.

    `atoms` must shape exactly `tokens` (all of one prompt, first tokens included in `tokens`:
    they only form groups, since prefill drew them).
    """
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    prefix: dict[int, tuple[int, ...]] = {}
    atom_of_row = {int(row): k for k, row in enumerate(atoms.row)}
    for row in np.lexsort((tokens.position, tokens.request)):
        request = int(tokens.request[row])
        seen = prefix.get(request, ())
        if len(seen) != int(tokens.position[row]):
            continue
        if seen and int(row) in atom_of_row:
            groups[seen].append(atom_of_row[int(row)])
        prefix[request] = (*seen, int(tokens.token[row]))
    differences, variances = [], []
    for members in groups.values():
        if len(members) > 1:
            difference, variance = _pairs(atoms, members)
            differences.append(difference)
            variances.append(variance)
    return Score(np.array(differences), np.array(variances))


def _pairs(atoms: Atoms, members: list[int]) -> tuple[float, float]:
    """Agreeing pairs minus their mean, and their variance: g draws from one known p.

    With s2 = sum p^2 and s3 = sum p^3: mean C(g,2) s2, variance
    C(g,2) (s2 - s2^2) + g (g-1) (g-2) (s3 - s2^2).
    """
    p, g = atoms.probs[members[0]], len(members)
    s2, s3 = float((p**2).sum()), float((p**3).sum())
    counts = np.bincount(atoms.chosen[members])
    pairs = g * (g - 1) / 2
    observed = float((counts * (counts - 1) / 2).sum())
    variance = pairs * (s2 - s2**2) + g * (g - 1) * (g - 2) * (s3 - s2**2)
    return observed - pairs * s2, max(variance, 0.0)
