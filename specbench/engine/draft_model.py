"""The draft model: what the target's context tables alone would say, cheap and a little wrong.

It knows the target's contexts but neither its memory nor its positions, as a distilled head sees
less than the model it serves. It answers with a short list of candidates, so that one draft step
costs no pass over the vocabulary.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specbench.engine.features import NOTHING
from specbench.engine.hashing import mix, uniform
from specbench.engine.lm import LanguageModel
from specbench.engine.weights import Floats, Weights

Ints = NDArray[np.int64]

CANDIDATES = 8
_NOISE_AT_QUALITY_0 = 4.0  # sd-like scale, in nats, of what a bad draft adds to its log-probs
_NOISE_GROWTH = 0.15  # how much worse each further position is
_GUMBELS = 1 << 12


@dataclass(slots=True)
class DraftModel:
    """Candidates for the next token from the current one and those before it.

    quality: 1 = as good as it gets, 0 = random tokens (SGLang's dummy draft weights), between
    them log-probabilities are disturbed, the more the deeper the position.
    reach: how many tokens before the current one the draft may look at.
    """

    language: LanguageModel
    quality: float = 1.0
    reach: int = 3
    seed: int = 0
    _tokens: NDArray[np.int32] = field(init=False, repr=False)  # (C + V, K)
    _logprobs: Floats = field(init=False, repr=False)
    _gumbels: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._tokens, self._logprobs = _candidate_tables(self.language.weights)
        coins = np.random.default_rng(self.seed).random(_GUMBELS + CANDIDATES)
        self._gumbels = (-np.log(-np.log(coins + 1e-12))).astype(np.float32)

    def candidates(self, tokens: Ints, context: Ints, depth: int) -> tuple[Ints, Floats]:
        """Return candidate tokens (R, K) and their log-probabilities, best first.

        tokens: (R,) current; context: (R, 3) those before, nearest first; depth: 1 for the
        position after the last token emitted.
        """
        if self.quality <= 0.0:
            return self._random_candidates(tokens, depth)
        known = context.copy()
        known[:, self.reach :] = NOTHING - 1  # a token that no context contains
        number = self.language.context_of(tokens, known)
        contexts = len(self.language.weights.patch_tokens)
        row = np.where(number >= 0, number, contexts + tokens)
        candidates, logprobs = self._tokens[row].astype(np.int64), self._logprobs[row]
        if self.quality >= 1.0:
            return candidates, logprobs
        strength = (1 - self.quality) * _NOISE_AT_QUALITY_0 * (1 + _NOISE_GROWTH * (depth - 1))
        place = (mix(self.seed, row, depth) % np.uint64(_GUMBELS)).astype(np.int64)
        noise = self._gumbels[place[:, None] + np.arange(CANDIDATES)]
        disturbed = logprobs + np.float32(strength) * noise
        disturbed -= np.log(np.exp(disturbed).sum(axis=1, keepdims=True))
        order = np.argsort(-disturbed, axis=1, kind="stable")
        return (
            np.take_along_axis(candidates, order, axis=1),
            np.take_along_axis(disturbed, order, axis=1),
        )

    def _random_candidates(self, tokens: Ints, depth: int) -> tuple[Ints, Floats]:
        size = self.language.vocab_size
        first = (uniform(self.seed, tokens, depth) * size).astype(np.int64)
        candidates = (first[:, None] + 7 * np.arange(CANDIDATES)) % size
        return candidates, np.full(candidates.shape, -np.log(CANDIDATES), dtype=np.float32)


def _candidate_tables(weights: Weights) -> tuple[NDArray[np.int32], Floats]:
    """Return the K best continuations of each known context, then of each single token."""
    current = _current_tokens(weights)
    best = np.argsort(-weights.bigram, axis=1, kind="stable")[:, :CANDIDATES]
    normaliser = np.log(np.exp(weights.bigram).sum(axis=1))
    patched = weights.patch_tokens
    repeats = np.zeros(patched.shape, dtype=bool)
    repeats[:, 1:] = patched[:, 1:] == patched[:, :1]
    base = weights.bigram[current[:, None], patched]
    raised = np.where(repeats, -np.inf, base + weights.patch_logits)
    gain = np.where(repeats, 0.0, np.exp(base) * np.expm1(weights.patch_logits)).sum(axis=1)
    total = np.log(np.exp(normaliser[current]) + gain)
    others = best[current]
    known = (others[:, :, None] == patched[:, None, :]).any(axis=2)
    plain = np.where(known, -np.inf, weights.bigram[current[:, None], others])
    tokens = np.concatenate([patched, others], axis=1)
    logprobs = np.concatenate([raised, plain], axis=1) - total[:, None]
    order = np.argsort(-logprobs, axis=1, kind="stable")[:, :CANDIDATES]
    single = np.take_along_axis(weights.bigram, best, axis=1) - normaliser[:, None]
    return (
        np.vstack([np.take_along_axis(tokens, order, axis=1), best]).astype(np.int32),
        np.vstack([np.take_along_axis(logprobs, order, axis=1), single]).astype(np.float32),
    )


def _current_tokens(weights: Weights) -> Ints:
    """Return the last token of each known context (C,)."""
    last = np.zeros(len(weights.patch_tokens), dtype=np.int64)
    before, token = np.nonzero(weights.contexts3 >= 0)
    last[weights.contexts3[before, token]] = token
    for keys, values in (
        (weights.keys4, weights.values4),
        (weights.keys5, weights.values5),
    ):
        last[values] = last[keys // (weights.bigram.shape[0] + 1)]
    return last
