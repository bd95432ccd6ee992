"""`meta_info` and the speculation counters of a request, under SGLang's keys and arithmetic."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from specbench.engine.sequence import TokenLogprob
from specbench.engine.server.request import Request

Json = dict[str, Any]
Piece = Callable[[int], str]


def spec_fields(request: Request, width: int) -> Json:
    """Counters of the verify steps; empty where none was made or nothing is drafted.

    accept_length is completion_tokens / verify_ct (it counts the prefill's token), accept_rate is
    correct / (verify_ct * (width - 1)), h[k] the number of steps that accepted exactly k drafts.
    """
    sequence = request.sequence
    if sequence.verify_ct == 0 or width <= 1:
        return {}
    proposed = sequence.verify_ct * (width - 1)
    return {
        "spec_accept_rate": sequence.accepted / proposed,
        "spec_accept_length": len(request.ids) / sequence.verify_ct,
        "spec_num_correct_drafts": sequence.accepted,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": sequence.verify_ct,
        "spec_correct_drafts_histogram": _without_tail(sequence.histogram),
    }


def _without_tail(histogram: Iterable[int]) -> list[int]:
    """Return a histogram that ends at the largest number seen."""
    counts = list(histogram)
    while counts and counts[-1] == 0:
        counts.pop()
    return counts


def spec_details(requests: list[Request], width: int) -> Json:
    """Return `sglext.spec_tokens_details` of an OpenAI answer, pooled over its choices."""
    verify = sum(r.sequence.verify_ct for r in requests)
    correct = sum(r.sequence.accepted for r in requests)
    proposed = verify * max(width - 1, 0)
    histograms = [_without_tail(r.sequence.histogram) for r in requests]
    longest = max((len(h) for h in histograms), default=0)
    pooled = [sum(h[k] for h in histograms if k < len(h)) for k in range(longest)]
    return {
        "spec_accept_rate": correct / proposed if proposed else 0.0,
        "spec_accept_length": sum(len(r.ids) for r in requests) / verify if verify else 0.0,
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": verify,
        "spec_correct_drafts_histogram": pooled,
        "spec_cap_lens_histogram": [],
    }


def meta_info(request: Request, width: int, version: str, rid: str | None = None) -> Json:
    """Return what a chunk says beside its text; spec fields and totals come with the last."""
    done = request.finish is not None
    meta: Json = {
        "id": rid or request.wish.rid,
        "finish_reason": request.finish,
        "prompt_tokens": request.prompt_tokens,
        "weight_version": version,
        "num_retractions": request.retractions,
        "storage_prefetch_wait": 0.0,
        "storage_staging_wait": 0.0,
        "forward_entry_time": request.forward_entry,
        "prefill_finished_time": request.prefill_finished,
        "queue_time": request.queue_s,
        "reasoning_tokens": 0,
        "completion_tokens": len(request.ids),
        "cached_tokens": request.cached_tokens,
        "cached_tokens_details": {"device": request.cached_tokens, "host": 0},
        "dp_rank": None,
    }
    if done:
        meta["weight_versions"] = [{"version": version, "start": 0, "end": len(request.ids)}]
        meta["e2e_latency"] = request.e2e_s
        meta |= spec_fields(request, width)
        meta |= _times(request)
    return meta


def _times(request: Request) -> Json:
    decode_s = request.e2e_s - request.first_token_s
    rate = (len(request.ids) - 1) / decode_s if decode_s > 0 and request.ids else 0.0
    return {
        "request_received_ts": request.received,
        "first_token_latency": request.first_token_s,
        "api_server_dispatch_finish_ts": request.dispatched,
        "request_finished_ts": request.finished_at,
        "decode_throughput": rate,
        "response_sent_to_client_ts": time.time(),
    }


def logprob_fields(request: Request, piece: Piece | None, since: int = 0) -> Json:
    """Return the logprob arrays of `meta_info`; `piece` gives token texts if asked for.

    Entries are [logprob, token id, text]; the first scored prompt token has no logprob, since the
    logits before it are not kept.
    """
    wish = request.wish
    if wish.logprobs is None:
        return {}
    start = wish.logprob_start
    prompt = request.input_logprobs
    output = request.sequence.output_logprobs[: len(request.ids)][since:]
    scored: list[list[Any]] = []
    if 0 <= start < len(wish.prompt_ids):
        scored = [[None, wish.prompt_ids[start], _text(piece, wish.prompt_ids[start])]]
    fields: Json = {
        "input_token_logprobs": scored + [_entry(e.logprob, e.token, piece) for e in prompt],
        "output_token_logprobs": [_entry(e.logprob, e.token, piece) for e in output],
        "output_token_logprobs_length": len(request.ids),
    }
    if wish.logprobs.top_n:
        fields["input_top_logprobs"] = [None] * len(scored) + _lists(prompt, piece, "top")
        fields["output_top_logprobs"] = _lists(output, piece, "top")
    if wish.logprobs.token_ids:
        fields["input_token_ids_logprobs"] = [None] * len(scored) + _lists(prompt, piece, "chosen")
        fields["output_token_ids_logprobs"] = _lists(output, piece, "chosen")
    return fields


def _lists(entries: list[TokenLogprob], piece: Piece | None, kind: str) -> list[list[Any]]:
    return [[_entry(lp, token, piece) for lp, token in getattr(e, kind)] for e in entries]


def _entry(logprob: float, token: int, piece: Piece | None) -> list[Any]:
    return [logprob, token, _text(piece, token)]


def _text(piece: Piece | None, token: int) -> str | None:
    return piece(token) if piece is not None else None
