"""No vacuous passes: measure whether the verify path was really exercised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.verify.statistics.counters import RequestCounters


@dataclass(frozen=True, slots=True)
class CoverageRule:
    """Least verify rounds, least accepted drafts a round, least rounds at each usual depth."""

    rounds: int = 200
    accepted_per_round: float = 0.05
    rounds_per_depth: int = 20


@dataclass(frozen=True, slots=True)
class Coverage:
    """`histogram[k]` = verify rounds that accepted k drafts, over all requests with counters."""

    rounds: int
    accepted: int
    histogram: tuple[int, ...]

    @property
    def accepted_per_round(self) -> float:
        """Mean drafts accepted in a round, without the bonus."""
        return self.accepted / self.rounds if self.rounds else 0.0


def measure(counters: Sequence[RequestCounters]) -> Coverage:
    """Pool the requests' own counters; chunk sizes stand in where a server gives none."""
    histogram: list[int] = []
    rounds = accepted = 0
    for one in counters:
        h = one.histogram or _from_rounds(one.rounds)
        histogram.extend([0] * (len(h) - len(histogram)))
        for k, count in enumerate(h):
            histogram[k] += count
        steps, drafts = one.derived or (sum(h), sum(k * c for k, c in enumerate(h)))
        rounds += one.verify_ct if one.verify_ct is not None else steps
        accepted += one.correct if one.correct is not None else drafts
    return Coverage(rounds, accepted, tuple(histogram))


def lacking(coverage: Coverage, rule: CoverageRule) -> str:
    """Why the coverage does not carry a verdict, or an empty string."""
    if coverage.rounds == 0:
        return "no verify round was seen: nothing to verify"
    if coverage.rounds < rule.rounds:
        return f"only {coverage.rounds} verify rounds seen, {rule.rounds} needed"
    if coverage.accepted_per_round < rule.accepted_per_round:
        return (
            f"speculation was hardly active: {coverage.accepted_per_round:.2f} accepted drafts a "
            f"round in {coverage.rounds} rounds"
        )
    for depth in range(1, _usual_depth(coverage.histogram) + 1):
        reached = sum(coverage.histogram[depth:])
        if reached < rule.rounds_per_depth:
            return f"depth {depth} was accepted in {reached} rounds, {rule.rounds_per_depth} needed"
    return ""


def _usual_depth(histogram: Sequence[int]) -> int:
    """Return the depth that 90 % of the rounds do not exceed."""
    total, seen = sum(histogram), 0
    for depth, count in enumerate(histogram):
        seen += count
        if seen >= 0.9 * total:
            return depth
    return 0


def _from_rounds(rounds: Sequence[int]) -> list[int]:
    """Return accepted drafts a round from chunk sizes; the first chunk is the prefill's token."""
    counts = [size - 1 for size in rounds[1:] if size > 0]
    histogram = [0] * (max(counts, default=-1) + 1)
    for count in counts:
        histogram[count] += 1
    return histogram
