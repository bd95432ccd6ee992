"""A tiny synthetic target for the tests: random conditionals, exact sampling, known faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specbench.verify.statistics.tokens import Floats, ScoredTokens

VOCAB = 64
RANKS = 20

Draw = Callable[[Floats, np.random.Generator], int]


def honest(p: Floats, rng: np.random.Generator) -> int:
    return int(rng.choice(len(p), p=p))


def conditionals(n: int, rng: np.random.Generator) -> Floats:
    """Rows as peaked as a chat model's: about half of them nearly certain."""
    scale = rng.choice([1.0, 2.5, 6.0], size=(n, 1), p=[0.2, 0.3, 0.5])
    logits = scale * rng.normal(size=(n, VOCAB))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def reshape(p: Floats, temperature: float = 1.0, top_k: int = 0) -> Floats:
    """The distribution that a sampler would use, from the whole vocabulary."""
    if temperature == 0:
        return np.eye(len(p))[p.argmax()]
    q = p ** (1 / temperature)
    if top_k:
        q = np.where(q >= np.sort(q)[-top_k], q, 0)
    return q / q.sum()


def emit(
    n: int,
    rng: np.random.Generator,
    *,
    draw: Draw = honest,
    temperature: float = 1.0,
    top_k: int = 0,
    noise: float = 0.0,
    request_len: int = 64,
) -> ScoredTokens:
    """n tokens drawn by `draw` and scored as a prefill would, each with its own logit noise."""
    rows = conditionals(n, rng)
    tokens = np.zeros(n, np.int64)
    scored = np.zeros((n, VOCAB))
    for i, p in enumerate(rows):
        emitted = perturb(p, noise, rng)
        tokens[i] = draw(reshape(emitted, temperature, top_k), rng)
        scored[i] = np.log(perturb(p, noise, rng))
    order = np.argsort(-scored, axis=1, kind="stable")[:, :RANKS]
    steps = np.arange(n)
    return ScoredTokens(
        request=steps // request_len,
        position=steps % request_len + 1,
        token=tokens,
        logp=scored[steps, tokens],
        top_ids=order,
        top_logp=np.take_along_axis(scored, order, axis=1),
        output_logp=np.full(n, np.nan),
        round_index=steps % 4,
    )


def perturb(p: Floats, noise: float, rng: np.random.Generator) -> Floats:
    if noise == 0:
        return p
    q = p * np.exp(noise * rng.normal(size=len(p)))
    return q / q.sum()
