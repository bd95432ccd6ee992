"""What is read out of whole answers: tokens, and the target's scores of them."""

import msgspec

from specbench.model.load import RequestRecord


class Malformed(Exception):
    """An answer that does not have the documented form; `str` says what is missing."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: its `record`, as the reader of replies fills it, and what a record lacks.

    `rounds` are tokens a stream event (empty without streaming). `matched` is the stop token that
    ended it, where the server says so and leaves it out of `ids`; `logp` the reported
    log-probabilities of `ids` (empty where not asked for), `pieces` the text of each token;
    `top_ids` and `top_logp` the likeliest tokens at each place, where these were asked for.
    """

    record: RequestRecord
    ids: tuple[int, ...]
    text: str = ""
    matched: int | None = None
    logp: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()
    rounds: tuple[int, ...] = ()
    top_ids: tuple[tuple[int, ...], ...] = ()
    top_logp: tuple[tuple[float, ...], ...] = ()


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """Teacher-forced conditionals of `ids` from `start` on: entry i is for ids[start + i]."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    top_ids: tuple[tuple[int, ...], ...]
    top_logp: tuple[tuple[float, ...], ...]
