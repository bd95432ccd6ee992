"""The draft model: what the target's context tables alone would say, cheap and a little wrong.

It knows the target's contexts but neither its memory nor its positions, as a distilled head sees
less than the model it serves. It answers with a short list of candidates, so that one draft step
costs no pass over the vocabulary.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from specbench.engine.features import REACH
from specbench.engine.hashing import uniform
from specbench.engine.lm import LanguageModel
from specbench.engine.weights import Floats, Weights

Ints = NDArray[np.int64]

CANDIDATES = 8
_NOISE_AT_QUALITY_0 = 4.0  # scale in nats of the Gumbel noise on log-probabilities
_NOISE_GROWTH = 0.15  # how much worse each further position is
_SEED = 9  # of the draft's imperfections: two servers have the same draft


@dataclass(frozen=True, slots=True)
class DraftTable:
    """What the draft says in each state, best candidate first; all arrays are (R, K).

    A state is the longest known context (or the current token alone). Contexts are closed under
    dropping their last token, so state and candidate determine the next state: drafting deeper is
    one table look-up a position.
    """

    tokens: Ints
    logprobs: Floats
    following: Ints


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
    _tables: tuple[DraftTable, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._tables = draft_tables(self.language, self.quality, self.reach)

    def states(self, tokens: Ints, context: Ints) -> Ints:
        """Return the states (R,) of current tokens (R,) and those before them (R, 3)."""
        return _states(self.language, tokens, context, self.reach)

    def table(self, depth: int) -> DraftTable:
        """Return the table of a drafted position, 1 for the one after the last token emitted."""
        return self._tables[min(depth.bit_length(), len(self._tables)) - 1]


def _states(language: LanguageModel, tokens: Ints, context: Ints, reach: int) -> Ints:
    known = context.copy()
    known[:, reach:] = language.vocab_size  # not known: no context contains it
    number = language.context_of(tokens, known)
    return np.where(number >= 0, number, len(language.weights.patch_tokens) + tokens)


@cache
def draft_tables(language: LanguageModel, quality: float, reach: int) -> tuple[DraftTable, ...]:
    """Return the tables of positions 1, 2 to 3, 4 to 7, and 8 on."""
    tokens, logprobs = _candidate_tables(language.weights)
    if quality <= 0.0:
        states = np.arange(len(tokens))
        first = (uniform(_SEED, states) * language.vocab_size).astype(np.int64)
        tokens = (first[:, None] + 7 * np.arange(CANDIDATES)) % language.vocab_size
        logprobs = np.full(tokens.shape, -np.log(CANDIDATES), dtype=np.float32)
    following = _following(language, tokens, reach)
    return tuple(
        _disturbed(DraftTable(tokens, logprobs, following), quality, first_depth)
        for first_depth in (1, 2, 4, 8)
    )


def _following(language: LanguageModel, tokens: Ints, reach: int) -> Ints:
    """Return the state after each candidate of each state (R, K)."""
    before = _state_tokens(language.weights)  # (R, 4), nearest first
    count, kinds = tokens.shape
    context = np.repeat(before[:, :REACH], kinds, axis=0)
    return _states(language, tokens.ravel(), context, reach).reshape(count, kinds)


def _disturbed(table: DraftTable, quality: float, depth: int) -> DraftTable:
    """Add Gumbel noise to the log-probabilities of a less than perfect draft, and sort again."""
    if quality <= 0.0 or quality >= 1.0:
        return table
    strength = (1 - quality) * _NOISE_AT_QUALITY_0 * (1 + _NOISE_GROWTH * (depth - 1))
    states = np.arange(len(table.tokens))[:, None]
    coins = uniform(_SEED, depth, states, np.arange(CANDIDATES)[None, :])
    noise = -np.log(-np.log(coins + 1e-12) + 1e-12)
    disturbed = table.logprobs + strength * noise
    disturbed -= np.log(np.exp(disturbed).sum(axis=1, keepdims=True))
    order = np.argsort(-disturbed, axis=1, kind="stable")
    return DraftTable(
        np.take_along_axis(table.tokens, order, axis=1),
        np.take_along_axis(disturbed, order, axis=1).astype(np.float32),
        np.take_along_axis(table.following, order, axis=1),
    )


def _candidate_tables(weights: Weights) -> tuple[Ints, Floats]:
    """Return the K best continuations of each known context, then of each single token."""
    current = _state_tokens(weights)[: len(weights.patch_tokens), 0]
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
        np.vstack([np.take_along_axis(tokens, order, axis=1), best]).astype(np.int64),
        np.vstack([np.take_along_axis(logprobs, order, axis=1), single]).astype(np.float32),
    )


def _state_tokens(weights: Weights) -> Ints:
    """Return the tokens of each state (C + V, 4), nearest first; V where it knows none."""
    size, contexts = len(weights.bigram), len(weights.patch_tokens)
    tokens = np.full((contexts + size, 4), size)
    tokens[contexts:, 0] = np.arange(size)
    before, current = np.nonzero(weights.contexts3 >= 0)
    number = weights.contexts3[before, current]
    tokens[number, 0], tokens[number, 1] = current, before - 1
    for length, keys, values in (
        (2, weights.keys4, weights.values4),
        (3, weights.keys5, weights.values5),
    ):
        tokens[values, :length] = tokens[keys // (size + 2), :length]
        tokens[values, length] = keys % (size + 2) - 1
    return tokens
