"""Drafts from text seen before: a trie over the tokens of all requests."""

import heapq
from dataclasses import dataclass, field

import numpy as np

from specbench.engine.sequence import Sequence
from specbench.engine.trees import NO_NODE, Trees, link_trees


@dataclass(slots=True)
class TrieNode:
    """A token string: how often it was seen, and what followed it."""

    seen: int = 0
    children: dict[int, "TrieNode"] = field(default_factory=dict)


@dataclass(slots=True)
class Trie:
    """All strings of up to `depth` tokens; it is emptied when it holds `capacity` nodes."""

    depth: int
    capacity: int
    root: TrieNode = field(default_factory=TrieNode)
    nodes: int = 0
    epoch: int = 0

    def clear(self) -> None:
        """Forget everything; cursors of an earlier epoch are void."""
        self.root = TrieNode()
        self.nodes = 0
        self.epoch += 1

    def extend(self, cursors: list[TrieNode], token: int) -> list[TrieNode]:
        """Read one more token; cursors are the strings that end here, longest first."""
        moved = [self._child(node, token) for node in (*cursors, self.root)]
        return moved[-self.depth :]

    def _child(self, node: TrieNode, token: int) -> TrieNode:
        child = node.children.get(token)
        if child is None:
            child = node.children[token] = TrieNode()
            self.nodes += 1
        child.seen += 1
        return child


@dataclass(slots=True)
class Reader:
    """How far one sequence has been read into the trie."""

    epoch: int
    tokens: int = 0
    cursors: list[TrieNode] = field(default_factory=list)


@dataclass(slots=True)
class NgramDrafter:
    """SGLang's NGRAM: continue the longest known suffix, best counted branches first.

    The trie learns from every request, so a second pass over the same prompts accepts far more
    than the first: `flush` empties it.
    """

    num_draft_tokens: int  # root included
    breadth: int  # children of a node
    depth: int = 18
    capacity: int = 200_000
    _trie: Trie = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._trie = Trie(self.depth, self.capacity)

    def flush(self) -> None:
        """Forget the text of all requests."""
        self._trie.clear()

    def propose(self, sequences: list[Sequence]) -> Trees:
        """Return the trees of known continuations; a node without one stays a padded root."""
        if self._trie.nodes > self.capacity:
            self._trie.clear()
        count, width = len(sequences), self.num_draft_tokens
        tokens = np.zeros((count, width), dtype=np.int64)
        parents = np.full((count, width), NO_NODE)
        sizes = np.ones(count, dtype=np.int64)
        for row, sequence in enumerate(sequences):
            tokens[row, 0] = sequence.current
            continuation = self._continuation(self._read(sequence))
            for node, (parent, token) in enumerate(continuation, start=1):
                tokens[row, node], parents[row, node] = token, parent
            sizes[row] = 1 + len(continuation)
        return link_trees(tokens, parents, sizes)

    def _read(self, sequence: Sequence) -> list[TrieNode]:
        reader = sequence.draft_state
        if not isinstance(reader, Reader) or reader.epoch != self._trie.epoch:
            reader = sequence.draft_state = Reader(self._trie.epoch)
        prompt = len(sequence.prompt_ids)
        fresh = (
            sequence.prompt_ids[reader.tokens :] + sequence.output_ids
            if reader.tokens < prompt
            else sequence.output_ids[reader.tokens - prompt :]
        )
        for token in fresh:
            reader.cursors = self._trie.extend(reader.cursors, token)
        reader.tokens += len(fresh)
        return reader.cursors

    def _continuation(self, cursors: list[TrieNode]) -> list[tuple[int, int]]:
        """Return (parent, token) of the drafted nodes, most often seen first.

        The suffix is kept so short that the trie knows a whole block behind it.
        """
        longest = max(1, self.depth - self.num_draft_tokens + 1)
        start = next((node for node in cursors[-longest:] if node.children), None)
        if start is None:
            return []
        drafted: list[tuple[int, int]] = []
        heap: list[tuple[float, int, int, TrieNode]] = []

        def offer(share: float, parent: int, node: TrieNode) -> None:
            ranked = sorted(node.children.items(), key=lambda item: (-item[1].seen, item[0]))
            for token, child in ranked[: self.breadth]:
                entry = (-share * child.seen / node.seen, parent, token, child)
                heapq.heappush(heap, entry)

        offer(1.0, 0, start)
        while heap and len(drafted) < self.num_draft_tokens - 1:
            negative, parent, token, node = heapq.heappop(heap)
            drafted.append((parent, token))
            offer(-negative, len(drafted), node)
        return drafted
