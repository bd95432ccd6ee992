"""The HTTP surface: routes, keys, health, control endpoints, and the shapes of errors."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from specbench.engine.sampling import SamplingParams
from specbench.engine.server import info, metrics
from specbench.engine.server.abilities import hidden_path
from specbench.engine.server.backend import Backend
from specbench.engine.server.http import (
    BadRequest,
    ClientGone,
    Exchange,
    Receive,
    Scope,
    Send,
)
from specbench.engine.server.log import logger
from specbench.engine.server.native import generate
from specbench.engine.server.openai import chat_completions, completions
from specbench.engine.server.request import Wish
from specbench.engine.server.tokenising import detokenize, tokenize
from specbench.engine.server.wire import read_json

Handler = Callable[[Backend, Exchange], Awaitable[None]]
HEALTH_TIMEOUT_S = 20.0
HEALTH_POLL_S = 1.0
FLUSH_POLL_S = 0.02
NODE_PATHS = frozenset({"/ping", "/health", "/health_generate"})
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)


async def _model_info(backend: Backend, exchange: Exchange) -> None:
    await exchange.json(info.model_info(backend))


async def _server_info(backend: Backend, exchange: Exchange) -> None:
    await exchange.json(info.server_info(backend))


async def _models(backend: Backend, exchange: Exchange) -> None:
    await exchange.json(info.models(backend))


async def _loads(backend: Backend, exchange: Exchange) -> None:
    await exchange.json(info.loads(backend))


async def _metrics(backend: Backend, exchange: Exchange) -> None:
    if not backend.args["enable_metrics"]:
        raise BadRequest("Not Found", 404)
    headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
    await exchange.answer(200, metrics.render(backend).encode(), headers)


async def _ready(backend: Backend, exchange: Exchange) -> None:
    await exchange.answer(200 if backend.ready and not backend.stopping else 503, b"")


async def _ping(_backend: Backend, exchange: Exchange) -> None:
    await exchange.answer(200, b"")


async def _health(backend: Backend, exchange: Exchange) -> None:
    """503 while starting or stopping; else one token is generated, polled every second."""
    if not backend.ready or backend.stopping:
        await exchange.answer(503, b"")
        return
    if "zombie" in backend.faults.names and backend.scheduler.stuck:
        await exchange.answer(200, b"")
        return
    params = SamplingParams(max_new_tokens=1, temperature=0.0, ignore_eos=True)
    request = backend.scheduler.submit(Wish("HEALTH_CHECK", [0], params, deaf=True))
    scale = min(1.0, float(backend.args["time_scale"]))
    try:
        await asyncio.wait_for(request.done(), HEALTH_TIMEOUT_S)
        await asyncio.sleep(HEALTH_POLL_S * scale)
    except TimeoutError:
        backend.unhealthy = True
        logger.error(
            "Health check failed. Server couldn't get a response from detokenizer for last "
            "20 seconds."
        )
        await exchange.answer(503, b"")
        return
    finally:
        backend.drop([request])
    await exchange.answer(200, b"")


async def _flush_cache(backend: Backend, exchange: Exchange) -> None:
    """200 only when idle, after at most `timeout` seconds; 400 otherwise."""
    try:
        timeout = float(exchange.query.get("timeout", ["0"])[0])
    except ValueError as error:
        raise BadRequest("timeout must be a number.") from error
    deadline = asyncio.get_running_loop().time() + timeout
    while not (done := backend.scheduler.flush()):
        if asyncio.get_running_loop().time() >= deadline:
            break
        await asyncio.sleep(FLUSH_POLL_S)
    if not done:
        logger.info(
            "Cache not flushed because there are pending requests. #queue-req: %d, "
            "#running-req: %d", len(backend.scheduler.waiting), len(backend.scheduler.running),
        )  # fmt: skip
    await exchange.text(FLUSHED if done else "Flush cache failed.\n", 200 if done else 400)


async def _abort_request(backend: Backend, exchange: Exchange) -> None:
    body = read_json(await exchange.body())
    everything = bool(body.get("abort_all", False))
    rid = body.get("rid")
    if not everything and not rid:
        raise BadRequest("Either rid or abort_all must be given.")
    backend.scheduler.abort(None if everything else str(rid))
    await exchange.answer(200, b"")


async def _set_internal_state(backend: Backend, exchange: Exchange) -> None:
    """Change accept thresholds while serving; the accept statistics start anew."""
    given = read_json(await exchange.body()).get("server_args")
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    known = (
        isinstance(given, dict)
        and bool(given)
        and all(
            key in names and isinstance(value, (int, float)) and 0 <= value <= 1
            for key, value in given.items()
        )
    )
    if known and isinstance(given, dict):
        backend.args |= given
        backend.scheduler.machine.decoder.set_thresholds(
            *(float(backend.args[name]) for name in names)
        )
        backend.scheduler.statistics.flush()
    await exchange.json([known])


ROUTES: dict[str, tuple[frozenset[str], Handler]] = {}


def _route(path: str, methods: str, handler: Handler) -> None:
    ROUTES[path] = (frozenset(methods.split()), handler)


for _path, _methods, _handler in (
    ("/generate", "POST PUT", generate),
    ("/v1/completions", "POST", completions),
    ("/v1/chat/completions", "POST", chat_completions),
    ("/tokenize", "POST", tokenize),
    ("/v1/tokenize", "POST", tokenize),
    ("/detokenize", "POST", detokenize),
    ("/v1/detokenize", "POST", detokenize),
    ("/v1/models", "GET", _models),
    ("/v1/loads", "GET", _loads),
    ("/model_info", "GET", _model_info),
    ("/get_model_info", "GET", _model_info),
    ("/server_info", "GET", _server_info),
    ("/get_server_info", "GET", _server_info),
    ("/health", "GET", _health),
    ("/health_generate", "GET", _health),
    ("/ready", "GET", _ready),
    ("/ping", "GET", _ping),
    ("/metrics", "GET", _metrics),
    ("/metrics/", "GET", _metrics),
    ("/flush_cache", "GET POST", _flush_cache),
    ("/abort_request", "POST", _abort_request),
    ("/set_internal_state", "POST PUT", _set_internal_state),
):
    _route(_path, _methods, _handler)

OPEN = ("/health", "/ready", "/metrics", "/ping")
ADMIN = frozenset({"/flush_cache", "/abort_request", "/set_internal_state"})


def authorised(args: dict[str, Any], path: str, header: str) -> bool:
    """Bearer keys: open paths need none, admin paths the admin key where there is one."""
    if path.startswith(OPEN):
        return True
    key = args["admin_api_key"] if path in ADMIN and args["admin_api_key"] else args["api_key"]
    return key is None or hmac.compare_digest(header.encode(), f"Bearer {key}".encode())


def error_body(path: str, error: BadRequest) -> Any:
    """Shape an error as its endpoint does: OpenAI's object, or SGLang's own."""
    if error.status == 404:
        return {"detail": "Not Found"}
    if path.startswith("/v1/"):
        kind = "BadRequestError" if error.status < 500 else "InternalServerError"
        return {
            "object": "error",
            "message": error.message,
            "type": kind,
            "param": None,
            "code": error.status,
        }
    return {"error": error.message if error.plain else {"message": error.message}}


def application(backend: Backend) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Make the ASGI application of one server."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"unsupported protocol {scope['type']}")
        exchange = Exchange(scope, receive, send)
        try:
            await _dispatch(backend, exchange)
        except ClientGone:
            return
        except BadRequest as error:
            if not exchange.started:
                await exchange.json(error_body(exchange.path, error), error.status)

    return app


async def _answer_as_node(exchange: Exchange) -> None:
    """Answer as a rank other than 0 does: it is healthy, and has nothing else to say."""
    if exchange.path not in NODE_PATHS:
        raise BadRequest("Not Found", 404)
    await exchange.answer(200, b"")


async def _dispatch(backend: Backend, exchange: Exchange) -> None:
    path, method = exchange.path, exchange.scope["method"]
    if not authorised(backend.args, path, exchange.header(b"authorization")):
        await exchange.json({"error": "Unauthorized"}, 401)
        return
    if backend.args["node_rank"]:
        await _answer_as_node(exchange)
        return
    if path.startswith("/v1/models/"):
        path = "/v1/models"
    if path not in ROUTES or hidden_path(backend.lacking, path):
        raise BadRequest("Not Found", 404)
    methods, handler = ROUTES[path]
    if method not in methods:
        await exchange.json({"detail": "Method Not Allowed"}, 405)
        return
    await handler(backend, exchange)
