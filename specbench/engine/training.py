"""Learns the language model from the corpus in a few seconds, the same way every time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from specbench.engine.corpus import Conversation, corpus_texts, training_ids
from specbench.engine.features import (
    FEATURE_STEP,
    FEATURES,
    LARGEST_UNIT,
    MEMORY,
    NOTHING,
    PROJECTION_SCALE,
    features,
    remember,
)
from specbench.engine.tokenizer import START_OF_TURN, Tokenizer, learn_merges
from specbench.engine.weights import Floats, Ints, Weights, context_key

VOCAB_SIZE = 1024
CONTINUATIONS = 8  # kept for each known context
SHARPNESS = 1.15  # of the token-pair model; chat models are surer than counts
CONFIDENCE = 1.0  # how much a seen context counts beside the shorter one
FAST_DECAY, SLOW_DECAY = 0.8, 0.98
HISTORY_STEPS = 80
HISTORY_BATCH = 2048  # positions a step
OPENING = 12  # tokens of the assistant's turn that count as its first words
HISTORY_RATE = 0.01
HISTORY_PENALTY = 3e-4
HISTORY_GAIN = 1.2

Context = tuple[int, ...]
Counts = dict[Context, Counter[int]]


def train(corpus: tuple[Conversation, ...]) -> Weights:
    """Learn merges, counts and history weights from conversations."""
    merges = learn_merges(corpus_texts(corpus), VOCAB_SIZE)
    tokenizer = Tokenizer(merges)
    documents = [training_ids(tokenizer, conversation) for conversation in corpus]
    size = tokenizer.vocab_size
    bigram = _token_pairs(documents, size)
    contexts = _known_contexts(documents, bigram)
    embedding, decay = _memory_weights(size)
    projection = _history_weights(documents, bigram, embedding, decay)
    return Weights(
        merges=np.array(merges, dtype=np.int32),
        bigram=bigram,
        contexts3=contexts.contexts3,
        keys4=contexts.keys4,
        values4=contexts.values4,
        keys5=contexts.keys5,
        values5=contexts.values5,
        patch_tokens=contexts.patch_tokens,
        patch_logits=contexts.patch_logits,
        embedding=embedding,
        decay=decay,
        projection=projection,
    )


def _token_pairs(documents: Iterable[Sequence[int]], size: int) -> Floats:
    """Return log p(next | current), interpolated with p(next) by the rule of Witten and Bell."""
    counts = np.zeros((size, size))
    for ids in documents:
        np.add.at(counts, (ids[:-1], ids[1:]), 1.0)
    unigram = counts.sum(axis=0) + 0.02
    unigram /= unigram.sum()
    total = counts.sum(axis=1, keepdims=True)
    kinds = (counts > 0).sum(axis=1, keepdims=True)
    weight = total / np.maximum(total + kinds, 1)
    relative = counts / np.maximum(total, 1)
    mixture = weight * relative + (1 - weight) * unigram
    scores: Floats = (SHARPNESS * np.log(mixture)).astype(np.float32)
    return scores


@dataclass(frozen=True, slots=True)
class _Contexts:
    contexts3: NDArray[np.int32]
    keys4: NDArray[np.int64]
    values4: NDArray[np.int32]
    keys5: NDArray[np.int64]
    values5: NDArray[np.int32]
    patch_tokens: NDArray[np.int32]
    patch_logits: Floats


def _known_contexts(documents: Iterable[Sequence[int]], bigram: Floats) -> _Contexts:
    """Give each context of two to four tokens a number, and say what follows it."""
    size = bigram.shape[0]
    counts = _count_contexts(documents)
    numbers: dict[Context, int] = {}
    extra: dict[Context, dict[int, float]] = {}
    tokens = np.zeros((len(counts), CONTINUATIONS), dtype=np.int32)
    logits = np.zeros((len(counts), CONTINUATIONS), dtype=np.float32)
    contexts3 = np.full((size + 2, size), -1, dtype=np.int32)
    longer: dict[int, list[tuple[int, int]]] = {3: [], 4: []}
    for context in sorted(counts, key=lambda known: (len(known), known)):
        number = numbers[context] = len(numbers)
        mass = extra[context] = _extra_mass(counts[context], extra.get(context[1:], {}))
        ranked = sorted(mass, key=lambda token: (-mass[token], token))[:CONTINUATIONS]
        ranked += [ranked[0]] * (CONTINUATIONS - len(ranked))
        tokens[number] = ranked
        before = np.exp(bigram[context[-1], ranked])
        logits[number] = np.log1p(np.array([mass[token] for token in ranked]) / before)
        if len(context) == 2:
            contexts3[context[0] + 1, context[1]] = number
        else:
            longer[len(context)].append(
                (context_key(numbers[context[1:]], context[0], size), number)
            )
    keys4, values4 = _table(longer[3])
    keys5, values5 = _table(longer[4])
    return _Contexts(contexts3, keys4, values4, keys5, values5, tokens, logits)


def _table(pairs: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    pairs = sorted(pairs)
    keys = np.array([key for key, _ in pairs], dtype=np.int64)
    return keys, np.array([number for _, number in pairs], dtype=np.int32)


def _count_contexts(documents: Iterable[Sequence[int]]) -> Counts:
    counts: defaultdict[Context, Counter[int]] = defaultdict(Counter)
    for ids in documents:
        padded = (NOTHING, NOTHING, NOTHING, *ids)
        for place in range(4, len(padded)):
            for length in (2, 3, 4):
                counts[padded[place - length : place]][padded[place]] += 1
    return counts


def _extra_mass(counts: Counter[int], shorter: dict[int, float]) -> dict[int, float]:
    """Return the mass that a context adds to each continuation beside the token-pair model p2.

    Interpolation q = w ML + (1 - w) q' with q' = (p2 + e') / Z' is proportional to p2 + e where
    e = e' + w / (1 - w) Z' ML, and Witten-Bell's w / (1 - w) is n / kinds, here times CONFIDENCE.
    """
    total = counts.total()
    odds = CONFIDENCE * total / len(counts)
    shorter_mass = 1.0 + sum(shorter.values())
    mass = dict(shorter)
    for token, count in counts.items():
        mass[token] = mass.get(token, 0.0) + odds * shorter_mass * count / total
    return mass


def _memory_weights(size: int) -> tuple[Floats, Floats]:
    """Return what each token writes into the memory (random signs) and how fast it fades."""
    embedding = np.random.default_rng(2024).choice((-1.0, 1.0), (size + 1, MEMORY))
    embedding[size] = 0.0
    decay = np.where(np.arange(MEMORY) < MEMORY // 2, FAST_DECAY, SLOW_DECAY)
    return embedding.astype(np.float32), decay.astype(np.float32)


def _history_weights(
    documents: Iterable[Sequence[int]], bigram: Floats, embedding: Floats, decay: Floats
) -> Floats:
    """Fit next-token logits linear in the history's features, beside the token-pair model.

    Maximum likelihood by Adam on random positions of the corpus, half of them among the first words
    of an answer, where the question matters and little else is known. Then the weights are rounded
    to whole units of PROJECTION_SCALE, which makes the model the same at every batch size.
    """
    current, following, inputs, opening = _history_examples(documents, embedding, decay)
    generator = np.random.default_rng(2025)
    weights = np.zeros((FEATURES, bigram.shape[1]), dtype=np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    rows = np.arange(HISTORY_BATCH)
    for step in range(1, HISTORY_STEPS + 1):
        anywhere = generator.integers(len(following), size=HISTORY_BATCH // 2)
        batch = np.concatenate([anywhere, generator.choice(opening, HISTORY_BATCH // 2)])
        logits = bigram[current[batch]] + inputs[batch] @ weights
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        logits[rows, following[batch]] -= 1.0
        slope = inputs[batch].T @ logits / HISTORY_BATCH + HISTORY_PENALTY * weights
        first += 0.1 * (slope - first)
        second += 0.01 * (slope * slope - second)
        unbiased = first / (1 - 0.9**step), second / (1 - 0.99**step)
        weights -= HISTORY_RATE * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    units = np.rint(HISTORY_GAIN * weights / PROJECTION_SCALE)
    rounded: Floats = np.clip(units, -LARGEST_UNIT, LARGEST_UNIT).astype(np.float32)
    return rounded


def _history_examples(
    documents: Iterable[Sequence[int]], embedding: Floats, decay: Floats
) -> tuple[Ints, Ints, Floats, Ints]:
    current: list[int] = []
    following: list[int] = []
    inputs: list[Floats] = []
    opening: list[int] = []
    for ids in documents:
        memory = np.zeros((1, MEMORY), dtype=np.float32)
        for position, (token, after) in enumerate(pairwise(ids)):
            memory = remember(memory, embedding[[token]], decay)
            current.append(token)
            following.append(after)
            inputs.append(features(memory, np.array([position]))[0])
        turn = len(ids) - 1 - ids[::-1].index(START_OF_TURN)
        first = len(current) - len(ids) + 1 + turn
        opening += range(first, min(first + OPENING, len(current)))
    return (
        np.array(current),
        np.array(following),
        np.array(inputs, dtype=np.float32) * np.float32(FEATURE_STEP),
        np.array(opening),
    )


def recipe() -> str:
    """Return every constant that the result depends on, for the name of the cache file."""
    return repr(
        (
            (VOCAB_SIZE, CONTINUATIONS, SHARPNESS, CONFIDENCE, FAST_DECAY, SLOW_DECAY),
            (HISTORY_STEPS, HISTORY_BATCH, OPENING, HISTORY_RATE, HISTORY_PENALTY, HISTORY_GAIN),
            (FEATURES, FEATURE_STEP, MEMORY, PROJECTION_SCALE, LARGEST_UNIT),
        )
    )
