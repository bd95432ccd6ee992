"""Which figures a trial's own stamps can carry, and which are withheld."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.model.columns import COLUMNS, Quantity
from specbench.model.load import Accuracy, RequestRecord

LIMIT = 0.10
"""A figure that may be off by more than a tenth of itself is withheld."""

UNSEEN_MS = 0.1
"""What no client can see, between a server's last instruction and the stamp."""

MS = 1e6

Floats = NDArray[np.float64]


class _Timed(msgspec.Struct, frozen=True):
    """The times of one request in ms, and how much earlier its ends may have left the server."""

    ttft: float
    span: float
    tokens: int
    steps: int
    first_doubt: float
    last_doubt: float


def errors(
    figures: dict[str, Any], finished: Iterable[RequestRecord], accuracy: Accuracy
) -> dict[str, float]:
    """Bound the error of each figure that rests on stamps, in its own unit.

    A percentile grows with each of its values: with every value at the end of its own interval it
    is at the end of its interval. The bounds hold for the figures whose accuracy holds. What
    the client sent late is part of its latencies by definition, and what the way costs as well:
    neither is in doubt, and both have flags of their own.
    """
    records = list(finished)
    times = [timed for r in records if (timed := _timed(r, accuracy)) is not None]
    found = _first(figures, times) | _decode(figures, times) | _gaps(figures, records)
    return {name: error for name, error in found.items() if figures.get(name) is not None}


def in_doubt(figures: dict[str, Any], bounds: dict[str, float]) -> dict[str, str]:
    """Name the figures whose bound is more than `LIMIT` of them, each with what is known."""
    return {
        name: f"{name} was seen as {figures[name]:.3g}, {_within(bound)}"
        for name, bound in bounds.items()
        if not bound <= LIMIT * figures[name]
    }


def _within(bound: float) -> str:
    return f"right within {bound:.3g} only" if math.isfinite(bound) else "and may be anything"


def _timed(record: RequestRecord, accuracy: Accuracy) -> _Timed | None:
    first, last = record.first_token_ns, record.last_token_ns
    if first is None or last is None:
        return None
    before = record.tokens_in_first_chunk
    tokens = 0 if record.output_tokens is None or before is None else record.output_tokens - before
    doubts = _doubts(record, accuracy)
    return _Timed(
        ttft=(first - record.intended_ns) / MS,
        span=(last - first) / MS,
        tokens=tokens if last > first else 0,
        steps=record.spec_verify_ct or max(0, (record.output_tokens or 0) - 1),
        first_doubt=doubts[0],
        last_doubt=doubts[1],
    )


def _doubts(record: RequestRecord, accuracy: Accuracy) -> tuple[float, float]:
    """Give the doubts of a request's first and last chunk, in ms.

    A row of before these were recorded has the bounds of its whole trial, where it shared reads.
    """
    if record.first_doubt_ns is not None and record.last_doubt_ns is not None:
        return record.first_doubt_ns / MS, record.last_doubt_ns / MS
    if not record.inexact_stamps:
        return 0.0, 0.0
    return (accuracy.ttft_error_us or 0.0) / 1e3, (accuracy.gap_error_us or 0.0) / 1e3


def _first(figures: dict[str, Any], times: Sequence[_Timed]) -> dict[str, float]:
    if not times:
        return {}
    seen = np.array([each.ttft for each in times])
    least = seen - np.array([each.first_doubt + UNSEEN_MS for each in times])
    return {name: _drop(seen, least, q) for name, q in _percentiles_of("ttft_ms", figures)}


def _decode(figures: dict[str, Any], times: Sequence[_Timed]) -> dict[str, float]:
    """Bound what rests on the time between the first chunk and the last."""
    found: dict[str, float] = {}
    timed = [each for each in times if each.tokens > 0]
    if timed:
        tokens = np.array([each.tokens for each in timed])
        seen, least, most = (_spans(timed, side) / tokens for side in (0, -1, 1))
        for name, q in _percentiles_of("tpot_ms", figures):
            found[name] = max(_drop(seen, least, q), _drop(most, seen, q))
        user = [np.median(1000 / np.maximum(span, 1e-9)) for span in (least, seen, most)]
        found["tok_s_user"] = float(max(user[0] - user[1], user[1] - user[2]))
    stepped = [each for each in times if each.steps]
    if stepped:
        least, seen, most = (_spans(stepped, side).sum() for side in (-1, 0, 1))
        steps = sum(each.steps for each in stepped)
        found["step_ms"] = float(max(seen - least, most - seen) / steps)
    return found


def _spans(times: Sequence[_Timed], side: int) -> Floats:
    """Give the spans as seen (0), at the least (-1) and at the most (1), in ms.

    A chunk left before its stamp: the last one's doubt shortens the span, the first one's adds.
    """
    spans = [each.span for each in times]
    if side:
        doubts = [each.last_doubt if side < 0 else each.first_doubt for each in times]
        spans = [
            span + side * (doubt + UNSEEN_MS) for span, doubt in zip(spans, doubts, strict=True)
        ]
    kept: Floats = np.maximum(np.array(spans), 0.0)
    return kept


def _gaps(figures: dict[str, Any], records: Sequence[RequestRecord]) -> dict[str, float]:
    """Bound the gaps: each chunk in doubt may have moved two of them to either side of a figure."""
    gaps = [np.diff(np.array(r.chunk_ns)) for r in records if len(r.chunk_ns) > 1]
    if not gaps:
        return {}
    every = np.concatenate(gaps) / MS
    moved = 200 * sum(r.inexact_stamps for r in records) / len(every)
    return {name: _moved(every, q, moved) for name, q in _percentiles_of("chunk_gap_ms", figures)}


def _moved(values: Floats, q: float, moved: float) -> float:
    """Bound a percentile of which `moved` per cent of the values may stand on the other side."""
    if moved and not moved < q < 100 - moved:
        return math.inf
    low, middle, high = np.percentile(values, [q - moved, q, q + moved])
    return float(max(middle - low, high - middle)) + UNSEEN_MS


def _percentiles_of(quantity: Quantity, figures: dict[str, Any]) -> list[tuple[str, float]]:
    """Name the columns that are percentiles of a quantity, each with its percent."""
    mine = (column for column in COLUMNS if column.quantity == quantity and column.name in figures)
    return [(column.name, column.percent) for column in mine]


def _drop(upper: Floats, lower: Floats, q: float) -> float:
    return float(np.percentile(upper, q) - np.percentile(lower, q))
