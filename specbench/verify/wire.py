"""What is asked of a server and what it answers, in the two dialects that give token ids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specbench.verify.statistics.counters import RequestCounters

Dialect = Literal["sglang", "vllm"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation request, by token ids, with every sampling field explicit."""

    ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    n: int = 1
    ignore_eos: bool = False
    stream: bool = False
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. `rounds` are tokens a stream chunk (empty without streaming).

    `matched` is the stop token that ended it, where the server says so and leaves it out of
    `ids`; `logp` the reported log-probabilities of `ids` (empty where not asked for), `pieces`
    the text of each token.
    """

    ids: tuple[int, ...]
    text: str
    finish: str
    matched: int | None
    logp: tuple[float, ...]
    pieces: tuple[str, ...]
    rounds: tuple[int, ...]
    counters: RequestCounters
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Teacher-forced conditionals of `ids` from `start` on: entry i is for ids[start + i]."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    top_ids: tuple[tuple[int, ...], ...]
    top_logp: tuple[tuple[float, ...], ...]


class Malformed(Exception):
    """An answer that does not have the documented form; `str` says what is missing."""


def generate_body(dialect: Dialect, ask: Ask, model: str) -> dict[str, Any]:
    """Return the JSON body of a generation request."""
    if dialect == "sglang":
        return {
            "input_ids": list(ask.ids),
            "stream": ask.stream,
            "return_logprob": ask.logprobs,
            "return_text_in_logprobs": ask.logprobs,
            "sampling_params": _sglang_sampling(ask),
        }
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(ask.ids),
        "max_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "top_k": ask.top_k or -1,
        "top_p": ask.top_p,
        "min_p": ask.min_p,
        "frequency_penalty": ask.frequency_penalty,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "n": ask.n,
        "ignore_eos": ask.ignore_eos,
        "return_token_ids": True,
        "stream": ask.stream,
    }
    if ask.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in ask.logit_bias}
    if ask.logprobs:
        body |= {"logprobs": 0, "return_tokens_as_token_ids": True}
    return body


def score_body(
    dialect: Dialect, ids: Sequence[int], start: int, top: int, model: str, *, least_new: int
) -> dict[str, Any]:
    """Return the body that asks for the target's conditionals at ids[start:].

    `logprob_start_len` is start - 1: SGLang gives no logits for the entry at the start itself.
    `least_new` is 0, or 1 for servers that refuse to generate nothing.
    """
    if dialect == "sglang":
        return {
            "input_ids": list(ids),
            "return_logprob": True,
            "logprob_start_len": max(start - 1, 0),
            "top_logprobs_num": top,
            "sampling_params": {"max_new_tokens": least_new, "temperature": 0.0},
        }
    return {
        "model": model,
        "prompt": list(ids),
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": top,
        "return_token_ids": True,
    }


def completions(
    dialect: Dialect, ask: Ask, answer: Any, draft_tokens: int | None
) -> list[Completion]:
    """Read a whole (not streamed) answer.

    Raises:
        Malformed: a documented field is missing, for example the token ids.

    """
    if dialect == "sglang":
        parts = answer if isinstance(answer, list) else [answer]
        out = [_sglang_completion(ask, part, (), draft_tokens) for part in parts]
    else:
        choices = _field(answer, "choices", list)
        out = [_vllm_completion(ask, choice, (), answer) for choice in choices]
    if not out:
        raise Malformed("no completion in the answer")
    return out


def streamed(
    dialect: Dialect, ask: Ask, events: Sequence[Any], draft_tokens: int | None
) -> Completion:
    """Read a stream of events (n = 1): the last one whole, the others for the chunk sizes.

    Raises:
        Malformed: the stream ended without an answer, or said an error.

    """
    if not events:
        raise Malformed("the stream ended without any event")
    failed = next((e for e in events if isinstance(e, dict) and "error" in e), None)
    if failed is not None:
        raise Malformed(f"the stream reports an error: {failed['error']}")
    if dialect == "sglang":
        return _sglang_stream(ask, events, draft_tokens)
    chunks = [c for e in events for c in e.get("choices", [])]
    sizes = tuple(len(c.get("token_ids") or ()) for c in chunks)
    whole = {
        "token_ids": [t for c in chunks for t in c.get("token_ids") or ()],
        "text": "".join(c.get("text") or "" for c in chunks),
        "finish_reason": next((c["finish_reason"] for c in chunks if c.get("finish_reason")), None),
        "stop_reason": next((c["stop_reason"] for c in chunks if c.get("stop_reason")), None),
    }
    return _vllm_completion(ask, whole, tuple(s for s in sizes if s), events[-1])


def scored(dialect: Dialect, ids: Sequence[int], start: int, answer: Any) -> Scored:
    """Read the conditionals at ids[start:] (start >= 1).

    Raises:
        Malformed: fewer entries than tokens, or entries for other tokens.

    """
    if dialect == "sglang":
        meta = _field(answer, "meta_info", dict)
        chosen = _field(meta, "input_token_logprobs", list)
        top = meta.get("input_top_logprobs") or []
        count = len(ids) - start
        chosen, top = chosen[len(chosen) - count :], top[len(top) - count :] if top else []
        _same_tokens([entry[1] for entry in chosen], ids[start:])
        return Scored(
            ids=tuple(ids[start:]),
            logp=tuple(_number(entry[0]) for entry in chosen),
            top_ids=tuple(tuple(e[1] for e in row or ()) for row in top),
            top_logp=tuple(tuple(_number(e[0]) for e in row or ()) for row in top),
        )
    choice = _field(answer, "choices", list)[0]
    rows = _field(choice, "prompt_logprobs", list)[start:]
    _same_tokens([int(next(iter(row))) if row else -1 for row in rows], ids[start:], exact=False)
    ordered = [sorted(row.items(), key=lambda kv: -kv[1]["logprob"]) for row in rows]
    return Scored(
        ids=tuple(ids[start:]),
        logp=tuple(row[str(t)]["logprob"] for row, t in zip(rows, ids[start:], strict=True)),
        top_ids=tuple(tuple(int(k) for k, _ in row) for row in ordered),
        top_logp=tuple(tuple(v["logprob"] for _, v in row) for row in ordered),
    )


def prompt_ids(dialect: Dialect, answer: Any) -> tuple[int, ...]:
    """Read the token ids of a text prompt out of an answer that was scored from position 0.

    Raises:
        Malformed: the server does not say them.

    """
    if dialect == "sglang":
        meta = _field(answer, "meta_info", dict)
        return tuple(entry[1] for entry in _field(meta, "input_token_logprobs", list))
    return tuple(_field(_field(answer, "choices", list)[0], "prompt_token_ids", list))


def _sglang_sampling(ask: Ask) -> dict[str, Any]:
    sampling: dict[str, Any] = {
        "max_new_tokens": ask.max_tokens,
        "temperature": ask.temperature,
        "top_k": ask.top_k or -1,
        "top_p": ask.top_p,
        "min_p": ask.min_p,
        "frequency_penalty": ask.frequency_penalty,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "n": ask.n,
        "ignore_eos": ask.ignore_eos,
    }
    if ask.logit_bias:
        sampling["logit_bias"] = {str(token): bias for token, bias in ask.logit_bias}
    return sampling


def _sglang_stream(ask: Ask, events: Sequence[Any], draft_tokens: int | None) -> Completion:
    counts = [int(_field(e, "meta_info", dict).get("completion_tokens") or 0) for e in events]
    sizes = tuple(b - a for a, b in zip([0, *counts], counts, strict=False) if b > a)
    last = dict(events[-1])
    if len(last.get("output_ids") or ()) < counts[-1]:
        # --incremental-streaming-output sends deltas
        last["output_ids"] = [t for e in events for t in e.get("output_ids") or ()]
        last["text"] = "".join(e.get("text") or "" for e in events)
    return _sglang_completion(ask, last, sizes, draft_tokens)


def _sglang_completion(
    ask: Ask, part: Any, rounds: tuple[int, ...], draft_tokens: int | None
) -> Completion:
    meta = _field(part, "meta_info", dict)
    ids = tuple(_field(part, "output_ids", list))
    finish = meta.get("finish_reason") or {}
    matched = finish.get("matched") if isinstance(finish, dict) else None
    entries = meta.get("output_token_logprobs") or []
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram")
    correct = meta.get("spec_num_correct_drafts", meta.get("spec_accept_token_num"))
    kind = finish.get("type", "") if isinstance(finish, dict) else str(finish)
    if kind == "abort":
        raise Malformed(f"the server aborted a request: {finish.get('message', '')}")
    counters = RequestCounters(
        completion_tokens=meta.get("completion_tokens"),
        n_ids=len(ids),
        max_tokens=ask.max_tokens,
        finish=kind,
        verify_ct=meta.get("spec_verify_ct"),
        correct=correct,
        proposed=meta.get("spec_num_proposed_drafts"),
        histogram=tuple(histogram or ()),
        draft_tokens=draft_tokens,
        rounds=rounds,
    )
    return Completion(
        ids=ids,
        text=str(part.get("text") or ""),
        finish=kind,
        matched=matched if kind == "stop" and isinstance(matched, int) else None,
        logp=tuple(_number(e[0]) for e in entries),
        pieces=tuple(str(e[2]) for e in entries if len(e) > 2 and e[2] is not None),
        rounds=rounds,
        counters=counters,
        cached_tokens=meta.get("cached_tokens"),
    )


def _vllm_completion(ask: Ask, choice: Any, rounds: tuple[int, ...], answer: Any) -> Completion:
    ids = tuple(_field(choice, "token_ids", list))
    usage = answer.get("usage") or {}
    spec = (answer.get("metrics") or {}).get("speculative_decoding") or {}
    alone = ask.n == 1
    details = usage.get("prompt_tokens_details") or {}
    logp = ((choice.get("logprobs") or {}).get("token_logprobs")) or ()
    matched = choice.get("stop_reason")
    # vLLM counts only steps that had a draft, so the identities of SGLang's counters do not apply.
    histogram = tuple(spec.get("acceptance_histogram") or ()) if alone else ()
    counters = RequestCounters(
        completion_tokens=usage.get("completion_tokens") if alone else None,
        n_ids=len(ids),
        max_tokens=ask.max_tokens,
        finish=str(choice.get("finish_reason") or ""),
        histogram=histogram,
        rounds=rounds,
    )
    return Completion(
        ids=ids,
        text=str(choice.get("text") or ""),
        finish=counters.finish,
        matched=matched if isinstance(matched, int) else None,
        logp=tuple(_number(x) for x in logp),
        pieces=(),
        rounds=rounds,
        counters=counters,
        cached_tokens=details.get("cached_tokens"),
    )


def _field(answer: Any, name: str, kind: type) -> Any:
    value = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(value, kind):
        raise Malformed(f"no `{name}` in the answer")
    return value


def _same_tokens(said: Sequence[int], sent: Sequence[int], *, exact: bool = True) -> None:
    if len(said) != len(sent) or (exact and list(said) != list(sent)):
        raise Malformed(f"scores for {len(said)} other tokens instead of the {len(sent)} sent")


def _number(value: Any) -> float:
    """Log-probability of a JSON entry; minus infinity is clamped, null is NaN."""
    return math.nan if value is None else max(float(value), -1e4)
