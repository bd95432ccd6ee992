"""Logprobs in OpenAI's two shapes: parallel lists for completions, objects for chat."""

from collections.abc import Callable
from typing import Any

from specbench.engine.sequence import TokenLogprob
from specbench.engine.server.request import Request

Json = dict[str, Any]
Piece = Callable[[int], str]


def completion_logprobs(request: Request, piece: Piece, top: int, since: int) -> Json:
    """Parallel lists; with `echo` the prompt's tokens come first, its first without a logprob."""
    wish = request.wish
    entries = _output(request, since)
    tokens: list[str] = []
    values: list[float | None] = []
    tops: list[Json | None] = []
    if wish.logprob_start == 0 and since == 0:
        tokens.append(piece(wish.prompt_ids[0]))
        values.append(None)
        tops.append(None)
        entries = [*request.input_logprobs, *entries]
    for entry in entries:
        tokens.append(piece(entry.token))
        values.append(entry.logprob)
        tops.append({piece(token): value for value, token in entry.top})
    return {
        "text_offset": [-1] * len(tokens),
        "token_logprobs": values,
        "tokens": tokens,
        "top_logprobs": tops if top else [],
    }


def chat_logprobs(request: Request, piece: Piece, top: int, since: int) -> Json:
    """One object a token, each with its `top` alternatives."""
    content = []
    for entry in _output(request, since):
        token = _token(piece(entry.token), entry.logprob)
        token["top_logprobs"] = [_token(piece(t), value) for value, t in entry.top[:top]]
        content.append(token)
    return {"content": content}


def _output(request: Request, since: int) -> list[TokenLogprob]:
    return list(request.sequence.output_logprobs[: len(request.ids)][since:])


def _token(text: str, logprob: float) -> Json:
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob}
