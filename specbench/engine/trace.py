"""Tell one request's rounds as text: the tree, the coins, the path that was accepted, the bonus."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specbench.engine.coins import CoinArray
from specbench.engine.decoder import Decoder
from specbench.engine.sampling import SamplingParams
from specbench.engine.seams import Round
from specbench.engine.sequence import Sequence
from specbench.engine.tokenizer import Tokenizer
from specbench.engine.verify import Coins, Walk


@dataclass
class Witness:
    """Stands in two seams of a decoder and remembers what passes, without changing it."""

    coins: Coins | None = None
    judged: Round | None = None
    walk: Walk | None = None

    def stand_in(self, decoder: Decoder) -> None:
        """Take the place of the decoder's own seams, around them."""
        seams = decoder.seams

        def coins(nodes: CoinArray, final: CoinArray) -> tuple[CoinArray, CoinArray]:
            nodes, final = seams.coins(nodes, final)
            self.coins = Coins(nodes[0].tolist(), float(final[0]))
            return nodes, final

        def walked(judged: Round, walk: Walk) -> Walk:
            self.judged, self.walk = judged, seams.walked(judged, walk)
            return self.walk

        decoder.seams = replace(seams, coins=coins, walked=walked)


def trace_request(decoder: Decoder, text: str, params: SamplingParams) -> Iterator[str]:
    """Decode one request and yield the lines that tell how; the decoder is used up by it."""
    tokenizer = decoder.language.tokenizer
    witness = Witness()
    witness.stand_in(decoder)
    sequence = Sequence("trace", tokenizer.encode(text), params)
    first = decoder.prefill([sequence])[0].token_ids
    yield f"prompt      {len(sequence.prompt_ids)} tokens"
    yield f"prefill     emits {_shown(tokenizer, first)}, by the plain sampler"
    number = 0
    while sequence.finish is None:
        number += 1
        root, place = sequence.current, sequence.kv.length
        emitted = decoder.step([sequence])[0].token_ids
        yield ""
        yield f"round {number:<5} root {_piece(tokenizer, root)} at position {place}"
        if witness.judged is not None and witness.walk is not None:
            yield from _tell_round(tokenizer, witness, witness.judged, witness.walk)
        yield f"emitted     {_shown(tokenizer, emitted)}"
    yield ""
    yield f"finish      {sequence.finish.type} {sequence.finish.matched}"
    yield f"text        {decoder.text(sequence.output_ids)!r}"
    if sequence.verify_ct:
        accept_len = 1 + sequence.accepted / sequence.verify_ct
        yield (
            f"accept_len  {accept_len:.2f} = 1 + {sequence.accepted} accepted drafts / "
            f"{sequence.verify_ct} verify steps; histogram {sequence.histogram}"
        )


def _tell_round(tokenizer: Tokenizer, witness: Witness, judged: Round, walk: Walk) -> Iterator[str]:
    greedy = judged.rows.params.greedy
    yield from _tell_children(tokenizer, witness, judged, walk, 0, "  ")
    last = walk.path[-1] if walk.path else 0
    path = [judged.tree.tokens[node] for node in walk.path]
    yield f"accepted    {len(path)}: {_shown(tokenizer, path)}"
    how = "the target's argmax"
    if not greedy and witness.coins is not None:
        how = f"final coin {witness.coins.final:.3f}"
    yield f"bonus       {_piece(tokenizer, walk.bonus)} from the row of node {last}, {how}"


def _tell_children(
    tokenizer: Tokenizer, witness: Witness, judged: Round, walk: Walk, node: int, indent: str
) -> Iterator[str]:
    """One line a child in sibling order, each followed by its own children."""
    tree = judged.tree
    children = tree.children(node)
    visited = node == 0 or node in walk.path
    if children and visited:
        yield f"{indent}{_question(tokenizer, witness, judged, node)}"
    distribution = judged.rows.distribution(node) if visited and children else None
    taken = next((child for child in children if child in walk.path), None)
    for child in children:
        token = tree.tokens[child]
        if distribution is None:
            verdict = "not reached"
        else:
            said = "accepted" if child == taken else "rejected"
            over = taken is not None and children.index(child) > children.index(taken)
            verdict = f"p = {distribution[token]:.3f}  {'not tried' if over else said}"
        yield f"{indent}node {child:<3} {_piece(tokenizer, token):16} {verdict}"
        yield from _tell_children(tokenizer, witness, judged, walk, child, indent + "    ")


def _question(tokenizer: Tokenizer, witness: Witness, judged: Round, node: int) -> str:
    """Say what decides among the children of a node."""
    if judged.rows.params.greedy or witness.coins is None:
        wanted = _piece(tokenizer, judged.rows.argmax(node))
        return f"after node {node} the target wants {wanted}"
    coin = witness.coins.nodes[node]
    return f"coin of node {node}: {coin:.3f}; a child is accepted once the sum of p exceeds it"


def _piece(tokenizer: Tokenizer, token: int) -> str:
    return repr(tokenizer.decode([token], skip_special=False))


def _shown(tokenizer: Tokenizer, tokens: list[int]) -> str:
    return " ".join(_piece(tokenizer, token) for token in tokens) or "nothing"
