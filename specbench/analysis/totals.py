"""Sums by prompt: a million request rows become one small array a quantity."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.errors import InputError
from specbench.stats.ratio import Sums

Array = NDArray[np.float64]

NEEDED = ("trial_id", "prompt_id", "phase", "status", "output_tokens")


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over measured requests, one array of shape (groups, prompts) a quantity.

    `requests` counts finished ones, `asked` all; `tokens` are output tokens; `busy_ns` from send
    to end; `decode_ns` and `decode_tokens` from the first token on; `steps` and `accepted` are the
    server's counters (steps are decode steps where an arm does not speculate); `proposed` nodes.
    """

    prompts: tuple[str, ...]
    asked: Array
    requests: Array
    tokens: Array
    busy_ns: Array
    decode_ns: Array
    decode_tokens: Array
    steps: Array
    accepted: Array
    proposed: Array
    prompt_tokens: Array
    cached_tokens: Array


def totals(
    requests: pd.DataFrame, groups: Sequence[Sequence[str]], plain: Sequence[bool]
) -> Totals:
    """Add up requests by group of trials and prompt.

    `groups[g]` lists the trial_ids of group g (a trial may stand in several groups); `plain[g]`
    says that the group decodes one token a step. Failed and warm-up requests are left out of
    every sum but `asked`. NaN counts as nothing; what no request reported sums to zero.

    Raises:
        InputError: the table lacks a column of contract section 6.
    """
    missing = [name for name in NEEDED if name not in requests.columns]
    if missing:
        raise InputError(f"the table of requests lacks {', '.join(missing)}")
    trial_code, trial_names = pd.factorize(requests["trial_id"])
    prompt_code, prompt_names = pd.factorize(requests["prompt_id"])
    measured = (requests["phase"] == "measured").to_numpy()
    finished = measured & (requests["status"] == "ok").to_numpy()
    place = {str(name): i for i, name in enumerate(trial_names)}
    shape = (len(trial_names), len(prompt_names))
    cell = trial_code.astype(np.int64) * max(1, shape[1]) + prompt_code

    def by_trial(values: Array, rows: NDArray[np.bool_]) -> Array:
        sums = np.bincount(cell[rows], weights=values[rows], minlength=shape[0] * shape[1])
        return sums.reshape(shape).astype(np.float64, copy=False)

    def collect(table: Array) -> Array:
        picks = [[place[t] for t in group if t in place] for group in groups]
        return np.array([table[pick].sum(axis=0) for pick in picks]).reshape(len(groups), shape[1])

    one = np.ones(len(requests))
    tokens = column(requests, "output_tokens")
    first = column(requests, "first_token_ns", missing=np.nan)
    decode = column(requests, "last_token_ns", missing=np.nan) - first
    steps = collect(by_trial(column(requests, "spec_verify_ct"), finished))
    decoded = collect(by_trial(np.maximum(tokens - 1, 0), finished))
    flat = np.asarray(plain, dtype=bool)
    steps[flat] = decoded[flat]
    after_first = tokens - column(requests, "tokens_in_first_chunk", missing=1.0)
    whole = column(requests, "end_ns", np.nan) - column(requests, "written_ns", np.nan)
    quantities = {
        "tokens": tokens,
        "busy_ns": np.nan_to_num(whole),
        "decode_ns": np.nan_to_num(decode),
        "decode_tokens": np.maximum(after_first, 0),
        "accepted": column(requests, "spec_accepted"),
        "proposed": column(requests, "spec_proposed"),
        "prompt_tokens": column(requests, "prompt_tokens"),
        "cached_tokens": column(requests, "cached_tokens"),
    }
    return Totals(
        prompts=tuple(map(str, prompt_names)),
        asked=collect(by_trial(one, measured)),
        requests=collect(by_trial(one, finished)),
        steps=steps,
        **{name: collect(by_trial(values, finished)) for name, values in quantities.items()},
    )


def column(requests: pd.DataFrame, name: str, missing: float = 0.0) -> Array:
    """Return a numeric column with `missing` where a request has no value."""
    if name not in requests.columns:
        return np.full(len(requests), missing)
    values = pd.to_numeric(requests[name], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(values), missing, values)


def pair(numerator: Array, denominator: Array, groups: tuple[int, int]) -> tuple[Sums, Sums] | None:
    """Pair two groups by the prompts on which both have something to divide.

    None where there is no such prompt, or a numerator is zero throughout.
    """
    a, b = groups
    common = (denominator[a] > 0) & (denominator[b] > 0)
    sides = [
        Sums(numerator=numerator[g][common], denominator=denominator[g][common]) for g in (a, b)
    ]
    if not common.any() or any(side.numerator.sum() <= 0 for side in sides):
        return None
    return sides[0], sides[1]
