"""The faults by name, each with the sentence that `--fault list` shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from specbench.engine.faults import (
    accepting,
    caching,
    coins,
    drafting,
    ending,
    parameters,
    reporting,
)
from specbench.engine.seams import Seams

Install = Callable[[Seams], Seams]
Area = Literal["state", "sampling", "parameters", "ending", "reporting", "quirk"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be wrong.

    area: `state` faults change greedy outputs, `sampling` faults the distribution at T > 0,
    `parameters` what the request asked for, `ending` where it stops, `reporting` what is said
    about it; a `quirk` is what SGLang does, off by default because it is not exact.
    """

    name: str
    area: Area
    sentence: str
    install: Install


_STATE = (
    (
        "sibling-visible-mask",
        "A row of the tree sees the siblings of its ancestors.",
        drafting.siblings_visible,
    ),
    (
        "positions-by-index",
        "Rows of a tree stand at consecutive positions instead of at their depth.",
        drafting.positions_by_index,
    ),
    (
        "wrong-row-accept",
        "Drafts are judged by the row before their parent's.",
        accepting.rows_shifted,
    ),
    (
        "unchecked-accept",
        "The first drafted token is accepted whatever the target says.",
        accepting.first_child_unchecked,
    ),
    (
        "bonus-from-draft",
        "The rejected draft is emitted in place of the target's own token.",
        accepting.bonus_from_draft,
    ),
    (
        "bonus-from-root-row",
        "The bonus token comes from the root's row, not the last accepted node's.",
        accepting.bonus_from_root,
    ),
    (
        "kv-commit-off-by-one",
        "The slot after each accepted one is committed to the cache.",
        caching.commit_off_by_one,
    ),
    (
        "kv-path-not-compacted",
        "The first slots of the tree are committed although others were accepted.",
        caching.path_not_compacted,
    ),
    (
        "kv-rejected-slot-kept",
        "The slot of a rejected draft stays in the cache.",
        caching.rejected_slot_kept,
    ),
    (
        "kv-cached-prefix-corrupt",
        "A reused prefix has lost its content; prompts without a cached prefix are right.",
        caching.cached_memory_lost,
    ),
    (
        "corrupt-at-concurrency",
        "The cache is corrupted whenever more than one request is in the batch.",
        caching.commit_only_when(caching.at_concurrency),
    ),
    (
        "corrupt-after-deep-acceptance",
        f"The cache is corrupted after a round that accepted {caching.DEEP} drafts or more.",
        caching.commit_only_when(caching.after_deep_acceptance),
    ),
    (
        "corrupt-beyond-length",
        f"The cache is corrupted once it holds more than {caching.LONG} tokens.",
        caching.commit_only_when(caching.beyond_length),
    ),
    (
        "corrupt-after-requests",
        f"The cache is corrupted after the first {caching.MANY_REQUESTS} requests.",
        caching.commit_only_when(caching.after_many_requests),
    ),
    (
        "token-lost",
        f"The last accepted draft of a round of more than {ending.DEEP_BLOCK} tokens is not sent.",
        ending.token_lost,
    ),
)

_SAMPLING = (
    (
        "duplicate-siblings",
        "The first two children of the root hold the same token.",
        drafting.duplicate_siblings,
    ),
    (
        "residual-keeps-rejected",
        "After a rejection the bonus token is drawn from the whole target row.",
        coins.residual_keeps_rejected,
    ),
    (
        "residual-unnormalised",
        "After a rejection the residual is sampled as if it summed to one.",
        coins.residual_unnormalised,
    ),
    (
        "coin-reused-across-siblings",
        "Siblings are tested one after the other with the same coin.",
        coins.one_coin_for_siblings,
    ),
    (
        "coin-reused-across-depths",
        "All nodes of a tree are tested with the root's coin.",
        coins.one_coin_for_depths,
    ),
    (
        "coin-reused-across-requests",
        "All requests of a batch are verified with the first one's coins.",
        coins.one_coin_for_requests,
    ),
    (
        "coin-reused-for-bonus",
        "The bonus token is drawn with the coin that rejected the children.",
        coins.one_coin_for_bonus,
    ),
    (
        "threshold-single",
        "Drafts of probability 0.3 or more are always accepted.",
        coins.with_thresholds(single=0.3),
    ),
    (
        "threshold-acc",
        "Acceptance probabilities are divided by 0.7.",
        coins.with_thresholds(acc=0.7),
    ),
    (
        "greedy-verify",
        "Verification commits the argmax at any temperature.",
        accepting.greedy_verify,
    ),
)

_PARAMETERS = (
    (
        "temperature-ignored",
        "Verification samples at temperature 1.",
        parameters.with_params(
            lambda params: params if params.greedy else replace(params, temperature=1.0)
        ),
    ),
    (
        "temperature-twice",
        "Verification divides by the temperature twice.",
        parameters.with_params(lambda params: replace(params, temperature=params.temperature**2)),
    ),
    (
        "top-p-ignored",
        "Verification ignores top_p.",
        parameters.with_params(lambda params: replace(params, top_p=1.0)),
    ),
    (
        "top-k-ignored",
        "Verification ignores top_k.",
        parameters.with_params(lambda params: replace(params, top_k=-1)),
    ),
    (
        "penalties-ignored",
        "Verification ignores frequency, presence and repetition penalties.",
        parameters.with_params(
            lambda params: replace(
                params, frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0
            )
        ),
    ),
    (
        "logit-bias-ignored",
        "Verification ignores logit_bias.",
        parameters.with_params(lambda params: replace(params, logit_bias={})),
    ),
)

_ENDING = (
    (
        "eos-swallowed",
        "An end token inside an accepted block is not noticed.",
        ending.eos_swallowed,
    ),
    ("eos-late", "One token after the end token is still emitted.", ending.eos_late),
    (
        "max-new-tokens-overrun",
        "The last block is not cut at max_new_tokens.",
        ending.length_overrun,
    ),
)

_REPORTING = (
    (
        "logprobs-lie",
        "Half of each log-probability is reported.",
        reporting.logprobs_lie,
    ),
    (
        "counters-lie",
        "Accepted drafts are counted that the histogram does not have.",
        reporting.counters_lie,
    ),
    (
        "text-loses-characters",
        "Some pieces of text lose their last character.",
        reporting.text_loses_characters,
    ),
)

_QUIRKS = (
    (
        "quirk-min-p",
        "min_p is ignored in verification (SGLang 0.5.23).",
        parameters.with_params(lambda params: replace(params, min_p=0.0)),
    ),
    (
        "quirk-top-k-then-top-p",
        "Verification applies top_p to the renormalised top_k (SGLang 0.5.23).",
        parameters.top_k_then_top_p,
    ),
    (
        "quirk-stale-penalties",
        "Penalties of a round do not count its own tokens (SGLang 0.5.23).",
        parameters.penalties_stale,
    ),
)

_AREAS: tuple[tuple[Area, tuple[tuple[str, str, Install], ...]], ...] = (
    ("state", _STATE),
    ("sampling", _SAMPLING),
    ("parameters", _PARAMETERS),
    ("ending", _ENDING),
    ("reporting", _REPORTING),
    ("quirk", _QUIRKS),
)
FAULTS: dict[str, Fault] = {
    name: Fault(name, area, sentence, install)
    for area, rows in _AREAS
    for name, sentence, install in rows
}
