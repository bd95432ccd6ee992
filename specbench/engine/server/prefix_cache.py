"""A radix tree of token prefixes: what a new prompt need not compute again.

Edges are runs of tokens; each carries a value of the same length (the KV slots of these tokens),
which is cut where the edge is. Requests with another namespace (`cache_salt`, `extra_key`) never
meet. Least recently used leaves that nobody holds are evicted first.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar


class Sliceable(Protocol):
    """A value with one element a token; a slice of it must not share memory with it."""

    def __getitem__(self, part: slice, /) -> Self: ...


V = TypeVar("V", bound=Sliceable)


@dataclass(eq=False, slots=True)
class Node(Generic[V]):
    """One edge and its end: `tokens` after the parent, `depth` tokens from the root."""

    tokens: tuple[int, ...]
    depth: int
    value: V | None
    parent: "Node[V] | None" = None
    children: dict[int, "Node[V]"] = field(default_factory=dict)
    holders: int = 0


@dataclass(frozen=True, slots=True)
class Match(Generic[V]):
    """The longest known prefix: `length` tokens; `node` to hold it by."""

    length: int
    node: Node[V]

    def values(self) -> list[V]:
        """Return the values along the path, from the root; together they have `length` elements."""
        return [step.value for step in _up(self.node) if step.value is not None][::-1]


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix of two runs."""
    limit = min(len(a), len(b))
    if tuple(a[:limit]) == tuple(b[:limit]):
        return limit
    return next(i for i in range(limit) if a[i] != b[i])


class PrefixCache(Generic[V]):
    """Prefixes of finished and running sequences.

    `size` counts the tokens of all edges, `held` those that a running request keeps from eviction.
    """

    def __init__(self) -> None:
        self.size = self.held = 0
        self._roots: dict[Hashable, Node[V]] = {}
        self._recent: OrderedDict[Node[V], None] = OrderedDict()

    def match(self, tokens: Sequence[int], namespace: Hashable = None) -> Match[V]:
        """Find the longest prefix of `tokens`; a partly matched edge is split at its border."""
        node = self._root(namespace)
        run, at = tuple(tokens), 0
        while at < len(run) and (child := node.children.get(run[at])) is not None:
            same = _common(child.tokens, run[at : at + len(child.tokens)])
            at += same
            whole = same == len(child.tokens)
            node = child if whole else self._split(child, same)
            if not whole:
                break
        self._touch(node)
        return Match(at, node)

    def insert(self, tokens: Sequence[int], value: V, namespace: Hashable = None) -> Match[V]:
        """Remember `tokens` and their `value`; return their own match."""
        found = self.match(tokens, namespace)
        rest = tuple(tokens[found.length :])
        if not rest:
            return found
        leaf = Node(rest, len(tokens), value[found.length : len(tokens)], found.node)
        found.node.children[rest[0]] = leaf
        self.size += len(rest)
        self._touch(leaf)
        return Match(leaf.depth, leaf)

    def hold(self, node: Node[V]) -> None:
        """Keep a prefix from eviction until it is released."""
        for step in _up(node):
            self.held += len(step.tokens) if step.holders == 0 else 0
            step.holders += 1

    def release(self, node: Node[V]) -> None:
        """Undo one `hold`."""
        for step in _up(node):
            step.holders -= 1
            self.held -= len(step.tokens) if step.holders == 0 else 0

    def evict(self, tokens: int) -> int:
        """Forget least recently used leaves until `tokens` are free; return how many were.

        A parent is always touched after its children, so one pass in order of use frees a whole
        path from its end.
        """
        freed, gone = 0, []
        for node in self._recent:
            if freed >= tokens:
                break
            if node.children or node.holders or node.parent is None:
                continue
            del node.parent.children[node.tokens[0]]
            freed += len(node.tokens)
            gone.append(node)
        for node in gone:
            del self._recent[node]
        self.size -= freed
        self._roots = {key: root for key, root in self._roots.items() if root.children}
        return freed

    def clear(self) -> None:
        """Forget everything; only when nobody holds anything."""
        self._roots.clear()
        self._recent.clear()
        self.size = self.held = 0

    def _root(self, namespace: Hashable) -> Node[V]:
        if (root := self._roots.get(namespace)) is None:
            root = self._roots[namespace] = Node((), 0, None)
        return root

    def _touch(self, node: Node[V]) -> None:
        """Make a path the most recently used one, its end first."""
        for step in _up(node):
            self._recent[step] = None
            self._recent.move_to_end(step)

    def _split(self, child: Node[V], at: int) -> Node[V]:
        """Cut an edge and its value in two; the upper part becomes the parent of the lower one."""
        parent = child.parent
        value = child.value
        assert parent is not None  # noqa: S101 - only the root has none, and it has no edge
        assert value is not None  # noqa: S101 - the same
        depth = child.depth - len(child.tokens) + at
        upper = Node(child.tokens[:at], depth, value[:at], parent, holders=child.holders)
        parent.children[upper.tokens[0]] = upper
        child.tokens, child.value, child.parent = child.tokens[at:], value[at:], upper
        upper.children[child.tokens[0]] = child
        return upper


def _up(node: Node[V]) -> Iterator[Node[V]]:
    """Yield a node and its ancestors below the root."""
    step: Node[V] | None = node
    while step is not None and step.parent is not None:
        yield step
        step = step.parent
