"""Sums by trial and prompt: a million request rows become one small array a quantity."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.errors import InputError
from specbench.stats.steady import share_by_ends, share_by_stamps, window_ends

Array = NDArray[np.float64]

NEEDED = ("trial_id", "prompt_id", "phase", "status", "output_tokens")


class Totals:
    """Sums over measured requests, one array of shape (trials, prompts) a quantity.

    `plain` are the trial_ids that decode one token a step. Failed and warm-up requests are left
    out of every sum but `asked` and `failed`; a finished request without a count of its tokens
    is counted as `uncounted` and is in no other sum: what was not reported is not 0.

    Raises:
        InputError: the table lacks a column of contract section 6.
    """

    def __init__(self, requests: pd.DataFrame, plain: Sequence[str] = ()) -> None:
        missing = [name for name in NEEDED if name not in requests.columns]
        if missing:
            raise InputError(f"the table of requests lacks {', '.join(missing)}")
        self._rows = requests
        trial, names = pd.factorize(requests["trial_id"])
        prompt, prompts = pd.factorize(requests["prompt_id"])
        self.prompts = tuple(map(str, prompts))
        self.place = {str(name): i for i, name in enumerate(names)}
        self._trial = trial.astype(np.int64)
        self._prompt = prompt.astype(np.int64)
        self._plain = frozenset(map(str, plain))
        self._measured = (requests["phase"] == "measured").to_numpy(dtype=bool)
        ok = self._measured & (requests["status"] == "ok").to_numpy(dtype=bool)
        self._finished = ok & np.isfinite(self.column("output_tokens"))
        self._uncounted = ok & ~self._finished
        self._cache: dict[str, Array] = {}

    def column(self, name: str) -> Array:
        """Return a numeric column of requests; NaN where a request has no value."""
        return column(self._rows, name, missing=np.nan)

    def of(self, quantity: str, trials: Sequence[str]) -> Array:
        """Sum a quantity by prompt: one row a trial of `trials`, in their order.

        Quantities: asked, requests (finished), failed, uncounted; tokens; window_tokens,
        window_ns, busy_ns (slot time inside the steady window, and all of it); decode_ns,
        decode_tokens; steps, emitted, accepted, proposed; accept (of requests, summed);
        prompt_tokens, cached_tokens.
        """
        if quantity not in self._cache:
            self._cache[quantity] = self._sums(quantity)
        table = self._cache[quantity]
        rows = np.zeros((len(trials), len(self.prompts)))
        for row, trial in zip(rows, trials, strict=True):
            if trial in self.place:
                row[:] = table[self.place[trial]]
        return rows

    def _sums(self, quantity: str) -> Array:
        values, rows = self._values(quantity)
        shape = (len(self.place), len(self.prompts))
        cell = self._trial[rows] * max(1, shape[1]) + self._prompt[rows]
        known = np.nan_to_num(values[rows])
        sums = np.bincount(cell, weights=known, minlength=shape[0] * shape[1])
        return sums.reshape(shape).astype(np.float64, copy=False)

    def _values(self, quantity: str) -> tuple[Array, NDArray[np.bool_]]:
        one = np.ones(len(self._rows))
        counted: dict[str, NDArray[np.bool_]] = {
            "asked": self._measured,
            "requests": self._finished,
            "uncounted": self._uncounted,
            "failed": self._measured & ~self._finished & ~self._uncounted,
        }
        if quantity in counted:
            return one, counted[quantity]
        made: dict[str, Callable[[], Array]] = {
            "tokens": lambda: self.column("output_tokens"),
            "window_tokens": lambda: self._window[0],
            "window_ns": lambda: self._window[1],
            "busy_ns": lambda: self.column("end_ns") - self.column("written_ns"),
            "decode_ns": self._decode_ns,
            "decode_tokens": self._decode_tokens,
            "steps": lambda: self._steps,
            "emitted": self._emitted,
            "accepted": lambda: self.column("spec_accepted"),
            "proposed": lambda: self.column("spec_proposed"),
            "accept": self._accept,
            "prompt_tokens": lambda: self.column("prompt_tokens"),
            "cached_tokens": lambda: self.column("cached_tokens"),
        }
        return made[quantity](), self._finished

    @cached_property
    def windows(self) -> tuple[Array, Array]:
        """Start and end of each trial's steady window, in the order of `place`."""
        rows = self._measured
        sent, ended = self.column("written_ns"), self.column("end_ns")
        return window_ends(self._trial[rows], sent[rows], ended[rows], len(self.place))

    @cached_property
    def _window(self) -> tuple[Array, Array]:
        """Tokens and slot time of each request inside its trial's window."""
        close = self.windows[1][self._trial]
        sent, ended = self.column("written_ns"), self.column("end_ns")
        tokens = self.column("output_tokens")
        inside = np.clip(np.minimum(ended, close) - sent, 0.0, None)
        cut = self._finished & (ended > close)
        share = np.ones(len(tokens))
        share[cut] = self._shares(cut, close, sent)
        return tokens * share, inside

    def _shares(self, cut: NDArray[np.bool_], close: Array, sent: Array) -> Array:
        """Share of each cut reply's tokens inside the window, by its chunks where they are kept."""
        first, last = self.column("first_token_ns"), self.column("last_token_ns")
        in_first = column(self._rows, "tokens_in_first_chunk", missing=1.0)
        tokens = self.column("output_tokens")
        plain = share_by_ends(close[cut], first[cut], last[cut], tokens[cut], in_first[cut])
        if not {"chunk_ns", "chunk_tokens"} <= set(self._rows.columns):
            return plain
        stamps = self._rows["chunk_ns"].to_numpy(dtype=object)
        chunks = self._rows["chunk_tokens"].to_numpy(dtype=object)
        for i, row in enumerate(np.flatnonzero(cut)):
            if np.ndim(stamps[row]) and np.ndim(chunks[row]):
                known = share_by_stamps(close[row], sent[row], stamps[row], chunks[row])
                plain[i] = plain[i] if known is None else known
        return plain

    @cached_property
    def _is_plain(self) -> NDArray[np.bool_]:
        by_trial = np.array([name in self._plain for name in self.place], dtype=bool)
        return by_trial[self._trial]

    @cached_property
    def _steps(self) -> Array:
        decoded = np.maximum(self.column("output_tokens") - 1, 0)
        steps: Array = np.where(self._is_plain, decoded, self.column("spec_verify_ct"))
        return steps

    def _emitted(self) -> Array:
        accepted = np.where(self._is_plain, 0.0, self.column("spec_accepted"))
        return self._steps + accepted

    def _accept(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            accept: Array = self._emitted() / self._steps
        return np.where(np.isfinite(accept), accept, np.nan)

    def _decode_ns(self) -> Array:
        return self.column("last_token_ns") - self.column("first_token_ns")

    def _decode_tokens(self) -> Array:
        after = self.column("output_tokens") - column(self._rows, "tokens_in_first_chunk", 1.0)
        return np.maximum(after, 0)


def column(requests: pd.DataFrame, name: str, missing: float = 0.0) -> Array:
    """Return a numeric column with `missing` where a request has no value."""
    if name not in requests.columns:
        return np.full(len(requests), missing)
    held = requests[name]
    if held.dtype.kind in "if":
        values = held.to_numpy(dtype=float)
    else:
        values = pd.to_numeric(held, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(values), missing, values)
