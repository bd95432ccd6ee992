"""A target's scores under a frequency penalty that the reader applies, for each way of counting.

Servers count differently: the answer alone, the last tokens with the prompt, or (relaxed, under
speculation) not the newest drafts. Given what is counted, the penalty is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from specbench.verify.statistics.tokens import Floats, Ints, ScoredTokens

Counting = Literal["answer", "window", "round", "last"]
"""`answer`: every token before. `window`: the last ones, prompt included (llama.cpp). `round`: none
of the verify round's own. `last`: only the last of each round before (SGLang 0.5.23)."""

WINDOW = 64


def penalised(
    tokens: ScoredTokens,
    penalty: float,
    counting: Counting,
    prompts: Sequence[Sequence[int]],
    *,
    applied: float = 1.0,
) -> tuple[ScoredTokens, Floats]:
    """Return the table under a penalty, ranks re-sorted, and (n, K) what it is worth at each rank.

    `tokens` holds whole requests in order; `prompts[r]` is the prompt of request r. Each counted
    occurrence is worth `penalty` nat, of which the share `applied` is taken off. Only the K known
    ranks are re-sorted: what a penalty lifts above them from beyond stays unknown, so compare
    tokens of these ranks with each other alone.
    """
    worth, own = np.zeros_like(tokens.top_logp), tokens.logp.copy()
    for row, seen in _counted(tokens, counting, prompts):
        worth[row] = penalty * (tokens.top_ids[row][:, None] == seen).sum(axis=1)
        own[row] -= applied * penalty * int((seen == tokens.token[row]).sum())
    top = tokens.top_logp - applied * worth
    order = np.argsort(-np.nan_to_num(top, nan=-np.inf), axis=1, kind="stable")
    table = replace(
        tokens,
        logp=own,
        top_ids=np.take_along_axis(tokens.top_ids, order, axis=1),
        top_logp=np.take_along_axis(top, order, axis=1),
    )
    return table, np.take_along_axis(worth, order, axis=1)


def _counted(
    tokens: ScoredTokens, counting: Counting, prompts: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Ints]]:
    """Yield each row with the ids that were counted when its token was chosen."""
    for request in np.unique(tokens.request).tolist():
        rows = np.flatnonzero(tokens.request == request)
        emitted, prompt = tokens.token[rows], np.asarray(prompts[request], np.int64)
        begins = np.flatnonzero(tokens.round_index[rows] == 0)
        for place, row in enumerate(rows.tolist()):
            yield row, _seen(emitted, prompt, begins[begins <= place], place, counting)


def _seen(emitted: Ints, prompt: Ints, begun: Ints, place: int, counting: Counting) -> Ints:
    """Return what is counted at one place; `begun` are the places where rounds have begun."""
    match counting:
        case "answer":
            return emitted[:place]
        case "window":
            return np.concatenate([prompt, emitted[:place]])[-WINDOW:]
        case "round":
            return emitted[: int(begun[-1]) if len(begun) else 0]
        case "last":
            return emitted[begun[begun > 0] - 1]
