"""What a request asks of its next token: penalties, temperature, filters, and the draw.

One function, `target_distribution`, says what "the target's distribution" is. The plain sampler
and every verifier use it, so exactness is a statement about one array.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
Distribution = NDArray[np.float64]

GREEDY_BELOW = 1e-6  # SGLang rewrites lower temperatures to top_k = 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The sampling fields of a request that act on tokens; names and defaults are SGLang's."""

    max_new_tokens: int = 128
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    sampling_seed: int | None = None
    greedy: bool = field(init=False)
    adjusts: bool = field(init=False)  # whether logits must be changed before the temperature
    filters: bool = field(init=False)

    def __post_init__(self) -> None:
        penalised = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty)
        adjusts = penalised != (0.0, 0.0, 1.0) or bool(self.logit_bias) or self.min_new_tokens > 0
        filters = self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0
        object.__setattr__(self, "greedy", self.temperature < GREEDY_BELOW or self.top_k == 1)
        object.__setattr__(self, "adjusts", adjusts)
        object.__setattr__(self, "filters", filters)

    @property
    def logprob_temperature(self) -> float:
        """The temperature that reported logprobs are divided by (greedy requests carry 1)."""
        return 1.0 if self.temperature < GREEDY_BELOW else self.temperature

    def validate(self, vocab_size: int) -> None:
        """Raise ValueError, in SGLang's words, for a value outside its range."""
        rules = (
            (self.temperature >= 0.0, "temperature must be non-negative", self.temperature),
            (0.0 < self.top_p <= 1.0, "top_p must be in (0, 1]", self.top_p),
            (0.0 <= self.min_p <= 1.0, "min_p must be in [0, 1]", self.min_p),
            (
                self.top_k == -1 or self.top_k >= 1,
                "top_k must be -1 (disable) or at least 1",
                self.top_k,
            ),
            (
                -2.0 <= self.frequency_penalty <= 2.0,
                "frequency_penalty must be in [-2, 2]",
                self.frequency_penalty,
            ),
            (
                -2.0 <= self.presence_penalty <= 2.0,
                "presence_penalty must be in [-2, 2]",
                self.presence_penalty,
            ),
            (
                0.0 < self.repetition_penalty <= 2.0,
                "repetition_penalty must be in (0, 2]",
                self.repetition_penalty,
            ),
            (self.max_new_tokens >= 0, "max_new_tokens must be at least 0", self.max_new_tokens),
            (
                0 <= self.min_new_tokens <= self.max_new_tokens,
                f"min_new_tokens must be in [0, max_new_tokens({self.max_new_tokens})]",
                self.min_new_tokens,
            ),
        )
        for holds, rule, value in rules:
            if not holds:
                raise ValueError(f"{rule}, got {value}.")
        for token in (*self.logit_bias, *self.stop_token_ids):
            if not 0 <= token < vocab_size:
                raise ValueError(f"token id must be in [0, {vocab_size - 1}], got {token}.")


def adjust_logits(
    logits: Row, params: SamplingParams, generated: Counter[int], ends: tuple[int, ...]
) -> Row:
    """Return a copy of a row with penalties, logit_bias and min_new_tokens applied.

    generated: how often each token occurs in the output so far; ends: tokens that end the request,
    forbidden until min_new_tokens have been generated.
    """
    row = logits.copy()
    if generated:
        tokens = np.fromiter(generated, dtype=np.int64)
        times = np.fromiter(generated.values(), dtype=np.float32)
        seen = row[tokens] - params.frequency_penalty * times - params.presence_penalty
        factor = params.repetition_penalty
        row[tokens] = np.where(seen > 0, seen / factor, seen * factor)
    for token, bias in params.logit_bias.items():
        row[token] += bias
    if generated.total() < params.min_new_tokens and ends:
        row[list(ends)] = -np.inf
    return row


def target_distribution(logits: Row, params: SamplingParams) -> Distribution:
    """Return the distribution (V,) of the next token: softmax at the temperature, then filters.

    The filters act jointly, as SGLang's plain sampler applies them: each is decided on the
    unfiltered probabilities, a token stays if all keep it, the rest is renormalised once.
    """
    if params.greedy:
        only = np.zeros(len(logits))
        only[int(logits.argmax())] = 1.0
        return only
    probs = softmax(logits, params.temperature)
    return filter_jointly(probs, params) if params.filters else probs


def softmax(logits: Row, temperature: float) -> Distribution:
    """Return the probabilities of logits divided by the temperature, in double precision."""
    scaled: Distribution = (logits - logits.max()).astype(np.float64)
    if temperature != 1.0:
        scaled /= temperature
    np.exp(scaled, out=scaled)
    scaled /= scaled.sum()
    return scaled


def filter_jointly(probs: Distribution, params: SamplingParams) -> Distribution:
    """Keep what top_k, top_p and min_p all keep; ties at an edge go to the smaller token."""
    order = np.argsort(-probs, kind="stable")
    ranked = probs[order]
    keep = np.ones(len(probs), dtype=bool)
    if params.top_k > 0:
        keep[params.top_k :] = False
    if params.top_p < 1.0:
        keep &= np.cumsum(ranked) - ranked < params.top_p
    keep &= ranked >= params.min_p * ranked[0]
    kept = np.zeros_like(probs)
    kept[order[keep]] = ranked[keep]
    kept /= kept.sum()
    return kept


def draw(probs: Distribution, coin: float) -> int:
    """Return the token at which the cumulative probability first exceeds coin times the total.

    probs need not be normalised; coin is in [0, 1). A token of probability zero is never drawn.
    """
    cumulative = np.cumsum(probs)
    token = int(np.searchsorted(cumulative, coin * cumulative[-1], side="right"))
    return token if token < len(probs) else int(np.flatnonzero(probs)[-1])
