"""What a filter certainly keeps and certainly forbids, by unfiltered draws at the same context.

The zones depend on the unfiltered draws alone, so they are independent of the filtered ones that
are tested. Only clear ranks count: kernel noise moves the edge of a filter, and a test that sees
on which side of the edge a token falls accuses clean servers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from specbench.verify.statistics.shaping import Filters

_SIGMAS = 3.5
_LEVEL = 0.001
_MIN_P_SLACK = 1.1


@dataclass(frozen=True, slots=True)
class Zones:
    """`core` tokens are kept by every usual order of the filters; `seen` counts the draws.

    A token is forbidden if `forbids` says so; everything else is left out of both samples.
    """

    filters: Filters
    seen: Counter[int]
    core: frozenset[int]

    @property
    def n(self) -> int:
        """How many unfiltered draws they rest on."""
        return self.seen.total()

    @property
    def core_share(self) -> float:
        """The part of the unfiltered draws that lies in the core."""
        return sum(self.seen[t] for t in self.core) / max(self.n, 1)

    def forbids(self, token: int) -> bool:
        """Whether some filter forbids the token, clear of its edge."""
        filters, count = self.filters, self.seen[token]
        above = [t for t in self.seen if t != token and clearly_above(self.seen[t], count)]
        if filters.top_k and len(above) >= filters.top_k:
            return True
        if filters.top_p < 1:
            mass = sum(self.seen[t] for t in above) / self.n
            if mass > filters.top_p + _edge(self.n):
                return True
        top = max(self.seen.values())
        return bool(filters.min_p) and _ratio_limits(count, top)[1] < filters.min_p / _MIN_P_SLACK

    @property
    def useful(self) -> bool:
        """Whether the core leaves a choice, or something that is drawn otherwise is forbidden."""
        return len(self.core) > 1 or any(self.forbids(t) for t in self.seen)


def zones(unfiltered: Sequence[int], filters: Filters) -> Zones | None:
    """Return the zones of a context; None without draws."""
    seen = Counter(unfiltered)
    if not seen:
        return None
    core = frozenset(t for t in seen if _certain(seen, t, filters))
    return Zones(filters, seen, core)


def clearly_above(higher: int, lower: int) -> bool:
    """Whether one count is above another by more than chance and ten per cent of noise."""
    return higher - lower > _SIGMAS * math.sqrt(higher + lower) + 0.1 * lower


def forbidden_p(verified: int, plain: int, share: float) -> float | None:
    """p-value of `verified` forbidden draws beside `plain` ones, where `share` is due to verify."""
    total = verified + plain
    return float(stats.binom.sf(verified - 1, total, share)) if total else None


def _certain(seen: Counter[int], token: int, filters: Filters) -> bool:
    n, count = seen.total(), seen[token]
    may_be_above = [t for t in seen if t != token and not clearly_above(count, seen[t])]
    if filters.top_k and len(may_be_above) >= filters.top_k:
        return False
    if filters.top_p < 1:
        ranked = sorted(seen.values(), reverse=True)
        # The order that renormalises what top_k left has the smaller nucleus.
        whole = sum(ranked[: filters.top_k]) if filters.top_k else n
        mass = sum(seen[t] for t in may_be_above) / max(whole, 1)
        if mass >= filters.top_p - _edge(n):
            return False
    top = max(seen.values())
    return not filters.min_p or _ratio_limits(count, top)[0] > filters.min_p * _MIN_P_SLACK


def _edge(n: int) -> float:
    return _SIGMAS * math.sqrt(0.25 / n) + 0.02


def _ratio_limits(count: int, top: int) -> tuple[float, float]:
    """Exact 99.9 % limits of the ratio of two Poisson means."""
    low = float(stats.beta.ppf(_LEVEL / 2, count, top + 1)) if count else 0.0
    high = float(stats.beta.ppf(1 - _LEVEL / 2, count + 1, top)) if top else 1.0
    return low / (1 - low), high / max(1 - high, 1e-12)
