"""Frozen contexts: the same few contexts sampled many times by the verify path.

A context is a prefix whose next token is nearly certain and whose token after that is open. Many
two-token requests then sample that second token through verification. This sees faults that are
aligned with the drafter and so cancel in every statistic of p alone (a residual taken from p
instead of p - q, say), and its two-sample form needs no model of temperature or filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from specbench.verify.statistics.sizes import shift_size
from specbench.verify.statistics.tokens import Bools, Floats, Ints, ScoredTokens

# Verify and prefill kernels differ by numerical noise that is frozen with the context and would
# accumulate over its repeats; this much (nat, rms) is part of the null hypothesis.
NOISE_NAT = 0.05


@dataclass(frozen=True, slots=True)
class Context:
    """`prompt` followed by `certain` (probability `certain_p`), then an open choice.

    `ids`, `probs`: the K likeliest tokens of the open choice at temperature 1; `row` of the table.
    """

    request: int
    position: int
    certain: int
    certain_p: float
    ids: Ints
    probs: Floats
    row: int = -1


@dataclass(frozen=True, slots=True)
class FixedContextsResult:
    """Summed chi-squared over contexts against its noncentral null.

    `worst` is the context with the smallest p of its own, `shift` says what moved there.
    """

    p: float | None
    statistic: float
    df: int
    n: int
    worst: tuple[int, float]
    shift: str = ""


def find_contexts(
    tokens: ScoredTokens,
    count: int,
    *,
    entropy: tuple[float, float] = (1.0, 2.4),
    usable: Bools | None = None,
) -> list[Context]:
    """Return the best contexts in scored output: a certain token, then one of `entropy` (nat).

    Certainty is preferred over everything; contexts below 80 % are not used, since too few
    requests would reach the open choice. At most two contexts a request keep them diverse. Where
    `usable` is given, the open token's row must be usable.
    """
    probs = np.exp(np.where(np.isnan(tokens.top_logp), -np.inf, tokens.top_logp))
    rest = np.clip(1 - probs.sum(axis=1), 1e-12, 1)
    own = -(probs * np.where(probs > 0, tokens.top_logp, 0.0)).sum(axis=1) - rest * np.log(rest)
    follows = (
        (tokens.request[1:] == tokens.request[:-1])
        & (tokens.position[1:] == tokens.position[:-1] + 1)
        & (tokens.token[:-1] == tokens.top_ids[:-1, 0])
    )
    certain_p = probs[:-1, 0]
    fits = follows & (own[1:] >= entropy[0]) & (own[1:] <= entropy[1]) & (certain_p > 0.8)
    if usable is not None:
        fits &= usable[1:]
    order = np.flatnonzero(fits)[np.argsort(-certain_p[fits], kind="stable")]
    chosen: list[Context] = []
    used: dict[int, int] = {}
    for row in order:
        request = int(tokens.request[row])
        if used.get(request, 0) >= 2:
            continue
        used[request] = used.get(request, 0) + 1
        chosen.append(
            Context(
                request=request,
                position=int(tokens.position[row]),
                certain=int(tokens.token[row]),
                certain_p=float(certain_p[row]),
                ids=tokens.top_ids[row + 1],
                probs=probs[row + 1],
                row=int(row) + 1,
            )
        )
        if len(chosen) == count:
            break
    return chosen


def one_sample(contexts: Sequence[Context], draws: Sequence[Sequence[int]]) -> FixedContextsResult:
    """Draws of the open token against its known distribution at temperature 1."""
    parts = []
    for context, drawn in zip(contexts, draws, strict=True):
        observed = np.array([sum(x == i for x in drawn) for i in context.ids], float)
        observed = np.append(observed, len(drawn) - observed.sum())
        probs = np.append(context.probs, max(1 - context.probs.sum(), 0.0))
        parts.append(_pearson(observed, probs * len(drawn)))
    # Only the draws' kernel differs from the known distribution's.
    found = _pool(parts, [len(d) * NOISE_NAT**2 for d in draws], sum(map(len, draws)))
    worst = found.worst[0]
    if worst < 0:
        return found
    due = {
        int(i): float(p) for i, p in zip(contexts[worst].ids, contexts[worst].probs, strict=True)
    }
    return replace(found, shift=_shift(worst, draws[worst], due))


def two_sample(
    verified: Sequence[Sequence[int]], prefilled: Sequence[Sequence[int]]
) -> FixedContextsResult:
    """Homogeneity of verify-sampled and prefill-sampled draws, context by context."""
    parts, noise = [], []
    for left, right in zip(verified, prefilled, strict=True):
        parts.append(_homogeneity(left, right))
        harmonic = len(left) * len(right) / max(len(left) + len(right), 1)
        noise.append(harmonic * NOISE_NAT**2)
    found = _pool(parts, noise, sum(map(len, verified)) + sum(map(len, prefilled)))
    worst = found.worst[0]
    if worst < 0:
        return found
    own = prefilled[worst]
    due = {token: count / len(own) for token, count in Counter(own).items()}
    return replace(found, shift=_shift(worst, verified[worst], due))


def _shift(context: int, drawn: Sequence[int], due: Mapping[int, float]) -> str:
    """Name the token whose share of the draws is farthest from its due."""
    counts, n = Counter(drawn), len(drawn)
    names = sorted({*counts, *(token for token, p in due.items() if p > 0)})
    if not names or not n:
        return ""
    token = max(names, key=lambda name: abs(counts[name] / n - due.get(name, 0.0)))
    return shift_size(context, token, counts[token] / n, due.get(token, 0.0), n)


def _pearson(observed: Floats, expected: Floats) -> tuple[float, int]:
    """Pearson's statistic with cells of small expectation pooled into one."""
    big = expected >= 4.0
    if big.sum() < 1:
        return 0.0, 0
    seen = np.append(observed[big], observed[~big].sum())
    hoped = np.append(expected[big], expected[~big].sum())
    if hoped[-1] < 1.0:
        # A rest this small would let one rare token carry the whole statistic.
        seen, hoped = seen[:-1], hoped[:-1] * (seen[:-1].sum() / max(hoped[:-1].sum(), 1e-12))
    return float(((seen - hoped) ** 2 / hoped).sum()), max(len(seen) - 1, 0)


def _homogeneity(left: Sequence[int], right: Sequence[int]) -> tuple[float, int]:
    names = sorted(set(left) | set(right))
    table = np.array([[sum(x == n for x in side) for n in names] for side in (left, right)], float)
    if not names or not len(left) or not len(right):
        return 0.0, 0
    total = table.sum(axis=0)
    rest = table[:, total < 8].sum(axis=1, keepdims=True)
    cells = np.hstack([table[:, total >= 8], rest])
    cells = cells[:, cells.sum(axis=0) > 0]
    if cells.shape[1] < 2:
        return 0.0, 0
    result = stats.chi2_contingency(cells, correction=False)
    return float(result.statistic), int(result.dof)


def _pool(
    parts: Sequence[tuple[float, int]], noise: Sequence[float], n: int
) -> FixedContextsResult:
    statistic, df = sum(s for s, _ in parts), sum(d for _, d in parts)
    if df == 0:
        return FixedContextsResult(None, 0.0, 0, n, (-1, 1.0))
    p = float(stats.ncx2.sf(statistic, df, sum(noise)))
    tails = [
        float(stats.ncx2.sf(s, d, max(x, 1e-9))) if d else 1.0
        for (s, d), x in zip(parts, noise, strict=True)
    ]
    worst = int(np.argmin(tails))
    return FixedContextsResult(p, statistic, df, n, (worst, tails[worst]))
