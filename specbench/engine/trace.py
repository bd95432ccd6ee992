"""One request's rounds, made visible: the tree, the target's view of it, the coins, the path."""

from collections.abc import Iterator
from dataclasses import dataclass

from specbench.engine.decoder import Decoder
from specbench.engine.seams import Round
from specbench.engine.sequence import Sequence
from specbench.engine.tokenizer import Tokenizer
from specbench.engine.trees import NO_NODE
from specbench.engine.verify import Walk


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A drafted node: its parent and depth, the target's probability of it, its coin, its fate.

    probability is that of the node's token in its parent's row (None for the root); coin is the one
    that chooses among the node's own children (None when the request is greedy).
    """

    node: int
    parent: int
    depth: int
    text: str
    probability: float | None
    coin: float | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class RoundTrace:
    """One round of draft and verification; nodes in depth-first order."""

    number: int
    nodes: tuple[TracedNode, ...]
    path: tuple[int, ...]
    bonus: str
    final_coin: float | None
    emitted: str

    def lines(self) -> Iterator[str]:
        """Yield the round as text: one line a node, accepted ones marked with a star."""
        yield f"round {self.number}: {len(self.path)} of {len(self.nodes) - 1} drafts accepted"
        for node in self.nodes:
            mark = "*" if node.accepted else " "
            chance = "" if node.probability is None else f"  p={node.probability:.3f}"
            coin = "" if node.coin is None else f"  coin={node.coin:.3f}"
            yield f"  {mark} {'  ' * node.depth}{node.text!r}{chance}{coin}"
        coin = "" if self.final_coin is None else f"  coin={self.final_coin:.3f}"
        yield f"  + bonus {self.bonus!r}{coin}"
        yield f"  = {self.emitted!r}"


def trace_request(decoder: Decoder, sequence: Sequence) -> Iterator[RoundTrace]:
    """Run one request to its end and yield its rounds; the decoder must not run others meanwhile.

    Plain decoding has no rounds: nothing is yielded, the sequence is complete all the same.
    """
    seen: list[tuple[Round, Walk]] = []
    decoder.watch = lambda judged, walk: seen.append((judged, walk))
    try:
        decoder.prefill([sequence])
        number = 0
        while sequence.finish is None:
            seen.clear()
            emission = decoder.step([sequence])[0]
            for judged, walk in seen:
                number += 1
                tokenizer = decoder.language.tokenizer
                emitted = tokenizer.decode(emission.token_ids, skip_special=False)
                yield describe(number, judged, walk, tokenizer, emitted)
    finally:
        decoder.watch = None


def describe(
    number: int, judged: Round, walk: Walk, tokenizer: Tokenizer, emitted: str
) -> RoundTrace:
    """Return the trace of one verification, while its rows are still in memory."""
    greedy = judged.rows.params.greedy
    return RoundTrace(
        number,
        tuple(_nodes(judged, walk, tokenizer)),
        tuple(walk.path),
        tokenizer.decode([walk.bonus], skip_special=False),
        None if greedy else judged.coins.final,
        emitted,
    )


def _nodes(judged: Round, walk: Walk, tokenizer: Tokenizer) -> Iterator[TracedNode]:
    tree, greedy = judged.tree, judged.rows.params.greedy
    accepted = {0, *walk.path}
    stack = [(0, NO_NODE, 0)]
    while stack:
        node, parent, depth = stack.pop()
        token = tree.tokens[node]
        yield TracedNode(
            node,
            parent,
            depth,
            tokenizer.decode([token], skip_special=False),
            None if node == 0 else float(judged.rows.distribution(parent)[token]),
            None if greedy else judged.coins.nodes[node],
            node in accepted,
        )
        stack += [(child, node, depth + 1) for child in reversed(tree.children(node))]
