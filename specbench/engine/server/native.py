"""`/generate`: SGLang's own endpoint, scalar and batch, whole or streamed."""

from collections.abc import AsyncIterator

from specbench.engine.server.abilities import refuse, shown
from specbench.engine.server.backend import Backend
from specbench.engine.server.http import BadRequest, Exchange, event
from specbench.engine.server.meta import Json, Piece, logprob_fields, meta_info
from specbench.engine.server.request import Request
from specbench.engine.server.streaming import Update, updates
from specbench.engine.server.wire import read_json


async def generate(backend: Backend, exchange: Exchange) -> None:
    """Serve one `/generate` request."""
    body = read_json(await exchange.body())
    refuse(backend.lacking, exchange.path, body)
    wishes, many = backend.reader.generate(body)
    piece = backend.piece if body.get("return_text_in_logprobs") else None
    requests = backend.submit(wishes, exchange)
    if body.get("stream"):
        await backend.stream(exchange, requests, _events(backend, requests, many, piece))
        return
    await backend.wait(exchange, requests)
    answers = [_answer(backend, request, piece) for request in requests]
    if not many:
        _raise_abort(requests[0])
    await exchange.json(answers if many else answers[0])


def _raise_abort(request: Request) -> None:
    """Answer an aborted request with an error, but only when it carries a status."""
    finish = request.finish or {}
    if status := finish.get("status_code"):
        raise BadRequest(str(finish.get("message")), int(status))


def _answer(backend: Backend, request: Request, piece: Piece | None) -> Json:
    meta = meta_info(request, backend.width, backend.args["weight_version"])
    meta |= logprob_fields(request, piece)
    answer = {"text": request.text, "output_ids": request.ids, "meta_info": meta}
    return shown(backend.lacking, answer)


async def _events(
    backend: Backend, requests: list[Request], many: bool, piece: Piece | None
) -> AsyncIterator[bytes]:
    incremental = bool(backend.args["incremental_streaming_output"])
    async for update in updates(requests, backend.args["stream_interval"]):
        chunk = _chunk(backend, update, piece, incremental=incremental)
        yield event(chunk | {"index": update.index} if many else chunk)


def _chunk(backend: Backend, update: Update, piece: Piece | None, *, incremental: bool) -> Json:
    """Everything so far, or with --incremental-streaming-output only what is new."""
    request = update.request
    meta = meta_info(request, backend.width, backend.args["weight_version"])
    meta |= logprob_fields(request, piece, update.tokens if incremental else 0)
    if incremental:
        text, ids = update.new_text, request.ids[update.tokens :]
    else:
        text, ids = request.text[: request.safe_chars], request.ids
    return shown(backend.lacking, {"text": text, "output_ids": ids, "meta_info": meta})
