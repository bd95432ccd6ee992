"""The target: a small language model whose logits depend on the key-value slots a row sees."""

import hashlib
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from specbench.engine import training
from specbench.engine.corpus import Conversation, read_corpus
from specbench.engine.features import FEATURE_STEP, PROJECTION_SCALE, features, remember
from specbench.engine.tokenizer import Tokenizer
from specbench.engine.weights import (
    Floats,
    Weights,
    cache_folder,
    context_key,
    load_weights,
    save_weights,
)

Ints = NDArray[np.int64]
_VERSION = "2"  # part of the cache key: raise it when the meaning of the weights changes


@dataclass(slots=True, eq=False)
class LanguageModel:
    """Logits of the next token from the current token, its position and the visible slots.

    A row reads three things: the token pair model of its own token, the longest known context
    among the tokens it finds one, two and three positions back, and the memory of its own slot,
    which sums up everything the slots before it had seen.
    """

    weights: Weights
    tokenizer: Tokenizer
    fingerprint: str
    _scratch: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._scratch = np.empty((0, self.vocab_size), dtype=np.float32)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.weights.bigram)

    def memory_of(self, tokens: Ints, before: Floats) -> Floats:
        """Return the memory (R, D) of slots that hold `tokens` and follow slots with `before`."""
        return remember(before, self.weights.embedding[tokens], self.weights.decay)

    def context_of(self, tokens: Ints, context: Ints) -> NDArray[np.int32]:
        """Return the number of the longest known context of each row, or -1.

        tokens: (R,) the rows' own; context: (R, 3) tokens 1, 2, 3 positions back, -1 for none.
        """
        weights = self.weights
        found = weights.contexts3[context[:, 0] + 1, tokens]
        four = _search(weights.keys4, weights.values4, found, context[:, 1], self.vocab_size)
        five = _search(weights.keys5, weights.values5, four, context[:, 2], self.vocab_size)
        return np.where(five >= 0, five, np.where(four >= 0, four, found))

    def logits(self, tokens: Ints, context: Ints, memory: Floats, positions: Ints) -> Floats:
        """Return logits (R, V) in a buffer that the next call overwrites."""
        weights = self.weights
        out, rows = self._buffer(len(tokens)), np.arange(len(tokens))
        np.matmul(features(memory, positions), weights.projection, out=out)
        out *= np.float32(FEATURE_STEP * PROJECTION_SCALE)
        out += weights.bigram[tokens]
        number = self.context_of(tokens, context)
        known = rows[number >= 0]
        number = number[known]
        out[known[:, None], weights.patch_tokens[number]] += weights.patch_logits[number]
        return out

    def _buffer(self, rows: int) -> Floats:
        if len(self._scratch) < rows:
            self._scratch = np.empty((rows, self.vocab_size), dtype=np.float32)
        return self._scratch[:rows]


def _search(
    keys: Ints, values: NDArray[np.int32], shorter: NDArray[np.int32], token: Ints, vocab_size: int
) -> NDArray[np.int32]:
    wanted = context_key(shorter.astype(np.int64), token, vocab_size)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((shorter >= 0) & (keys[place] == wanted), values[place], np.int32(-1))


@cache
def load_language() -> LanguageModel:
    """Return the language model, trained at the first start and cached for the user.

    The cache file is named by the corpus and the recipe, so a stale one is never read; a damaged
    one is trained again.
    """
    corpus = read_corpus()
    fingerprint = _fingerprint(corpus)
    path = cache_folder() / f"{fingerprint}.npz"
    weights = load_weights(path)
    if weights is None:
        weights = training.train(corpus)
        save_weights(weights, path)
    merges = tuple((int(left), int(right)) for left, right in weights.merges)
    return LanguageModel(weights, Tokenizer(merges), fingerprint)


def _fingerprint(corpus: tuple[Conversation, ...]) -> str:
    digest = hashlib.sha256(f"{_VERSION}{training.recipe()}".encode())
    for conversation in corpus:
        digest.update(repr(conversation).encode())
    return digest.hexdigest()[:16]
