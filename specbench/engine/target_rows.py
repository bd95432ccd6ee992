"""The target's rows of one sequence's tree, adjusted and shaped as its request asks."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specbench.engine.sampling import (
    Distribution,
    Row,
    SamplingParams,
    adjust_logits,
    target_distribution,
)
from specbench.engine.weights import Floats


@dataclass(slots=True)
class TargetRows:
    """Logits of N nodes (N, V) and what they mean for a request; rows are shaped when asked for.

    The output "so far" of a node ends with the tokens on the way from the root to it, so penalties
    of a deep node count the drafts above it.
    """

    raw: Floats
    params: SamplingParams
    generated: Counter[int]
    ends: tuple[int, ...]  # tokens that end the request
    tokens: Sequence[int] = ()  # of the nodes
    parents: Sequence[int] = ()
    best: Sequence[int] | None = None  # argmax of the raw rows, when the batch has computed it
    shape: Callable[[Row, SamplingParams], Distribution] = target_distribution
    drafted: Callable[["TargetRows", int], list[int]] | None = None
    _adjusted: dict[int, Row] = field(default_factory=dict)

    def logits(self, node: int) -> Row:
        """Return the logits after a node, with penalties, bias and the minimum length."""
        if not self.params.adjusts:
            raw: Row = self.raw[node]
            return raw
        row = self._adjusted.get(node)
        if row is None:
            above = (self.drafted or drafted_above)(self, node)
            seen = self.generated + Counter(above)
            row = adjust_logits(self.raw[node], self.params, seen, self.ends)
            self._adjusted[node] = row
        return row

    def argmax(self, node: int) -> int:
        """Return the most probable token after a node; ties go to the smaller number."""
        if self.best is not None and not self.params.adjusts:
            return self.best[node]
        return int(self.logits(node).argmax())

    def distribution(self, node: int) -> Distribution:
        """Return the distribution of the token after a node."""
        return self.shape(self.logits(node), self.params)


def drafted_above(rows: TargetRows, node: int) -> list[int]:
    """Return the drafted tokens from a node up to, but without, the root."""
    drafted = []
    while node > 0:
        drafted.append(rows.tokens[node])
        node = rows.parents[node]
    return drafted
