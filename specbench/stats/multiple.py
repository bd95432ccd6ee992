"""Several verdicts at once: the correction that keeps their joint error."""

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values so that one threshold bounds the chance of any false claim.

    Step-down Bonferroni (Holm 1979); valid under any dependence.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(value) for value in adjusted]
