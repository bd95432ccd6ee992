"""Faults and upstream quirks of the sampling parameters that verification honours."""

from collections.abc import Callable
from dataclasses import replace

from specbench.engine import sampling
from specbench.engine.sampling import Distribution, Row, SamplingParams
from specbench.engine.seams import Seams
from specbench.engine.target_rows import TargetRows

Install = Callable[[Seams], Seams]


def with_params(change: Callable[[SamplingParams], SamplingParams]) -> Install:
    """Verify by other sampling parameters than the request's."""

    def install(seams: Seams) -> Seams:
        before = seams.judge_by
        return replace(seams, judge_by=lambda params: change(before(params)))

    return install


def top_k_then_top_p(seams: Seams) -> Seams:
    """Apply top_p to what top_k has left and renormalised, as SGLang's verify does."""

    def shape(logits: Row, params: SamplingParams) -> Distribution:
        first = sampling.target_distribution(logits, replace(params, top_p=1.0, min_p=0.0))
        if params.greedy:
            return first
        return sampling.filter_jointly(first, replace(params, top_k=-1))

    return replace(seams, shape=shape)


def penalties_stale(seams: Seams) -> Seams:
    """Give all nodes of a round the penalties of its root, as SGLang's verify does."""
    return replace(seams, drafted_above=_nothing_drafted)


def _nothing_drafted(_rows: TargetRows, _node: int) -> list[int]:
    return []
