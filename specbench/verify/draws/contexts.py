"""Where to draw: open contexts that verification reaches through nearly certain tokens.

A prompt that ends d tokens before an open context, continued through d nearly certain tokens, gives
a draw of verification at that context, from row d of a round. Several starts reach the root's row,
rows of accepted drafts, and the bonus.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from specbench.verify.draws.book import Book, Ids, Node
from specbench.verify.wire import Ask

_FIRST = 4
_MOST_COLLISION = 0.45
_STARTS = 3
_PER_PATH = 3
_PLAIN = Ask((), 1, temperature=1.0)


def find_nodes(book: Book) -> list[Node]:
    """Draw at the positions of greedy outputs until enough open contexts are known.

    Four draws at each position, four more where they matter. These are never used in a test, so
    the contexts may be chosen by them.
    """
    wanted = book.session.budget.draws.nodes
    found: list[Node] = []
    book.session.flush()
    for path, start in dict.fromkeys(book.paths):
        if len(found) >= wanted or book.session.left < 500:
            break
        found += _nodes_of(book, path, start)
    found.sort(key=lambda node: -node.run)
    return found[:wanted]


def _nodes_of(book: Book, path: Ids, start: int) -> list[Node]:
    places = range(start, len(path))
    first = dict(zip(places, _draw(book, path, places), strict=True))
    sure = {p for p in places if set(first[p]) == {path[p]}}
    hopeful = [
        p for p in places if p - 1 in sure and len(set(first[p])) > 1 and first[p] != [-1] * _FIRST
    ]
    more = sorted({q for p in hopeful for q in range(p - _STARTS, p + 1) if q in sure or q == p})
    second = dict(zip(more, _draw(book, path, more), strict=True))
    certain = {p for p in sure if p in second and set(second[p]) == {path[p]}}
    nodes = []
    for place in hopeful:
        if _collision(first[place] + second[place]) > _MOST_COLLISION:
            continue
        run = next((d for d in range(_STARTS) if place - 1 - d not in certain), _STARTS)
        if run:
            nodes.append(Node(path, place, run))
    return sorted(nodes, key=lambda node: -node.run)[:_PER_PATH]


def _draw(book: Book, path: Ids, places: Sequence[int]) -> list[list[int]]:
    return book.draw([path[:p] for p in places], [_FIRST] * len(places), _PLAIN)


def _collision(drawn: Sequence[int]) -> float:
    """Return the share of equal pairs among draws."""
    pairs = len(drawn) * (len(drawn) - 1)
    return sum(c * (c - 1) for c in Counter(drawn).values()) / max(pairs, 1)
