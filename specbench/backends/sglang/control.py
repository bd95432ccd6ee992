"""Control endpoints of SGLang, 0.4.6 to 0.5.23, as requests."""

import msgspec

from specbench.backends.backend import HttpRequest, Verb
from specbench.backends.openai import control as openai
from specbench.model.json_text import NOT_JSON

FLUSH_WAIT_S = 10.0

_REQUESTS: dict[Verb, HttpRequest] = {
    "alive": HttpRequest(path="/model_info", timeout_s=2.0),
    "health": HttpRequest(path="/health", timeout_s=25.0),  # it runs a token through the model
    # The names without get_ came with 0.5.8.
    "info": HttpRequest(path="/server_info", otherwise=HttpRequest(path="/get_server_info")),
    "model": HttpRequest(path="/model_info", otherwise=HttpRequest(path="/get_model_info")),
    "models": openai.MODELS,
    "metrics": HttpRequest(path="/metrics"),
    "running": HttpRequest(path="/v1/loads"),  # 0.5.8 and later
    # A busy server waits up to the timeout; an idle one also resets its accept statistics.
    "flush": HttpRequest(
        path=f"/flush_cache?timeout={FLUSH_WAIT_S:g}", method="POST", timeout_s=FLUSH_WAIT_S + 10
    ),
    "abort": HttpRequest(
        path="/abort_request", method="POST", body=b'{"abort_all":true}', timeout_s=5.0
    ),
    "profile_start": HttpRequest(path="/start_profile", method="POST", body=b"{}"),
    "profile_stop": HttpRequest(path="/stop_profile", method="POST", timeout_s=300.0),
}


def control(verb: Verb, model: str) -> HttpRequest | None:
    """Give the request of a verb, or None."""
    if verb != "canary":
        return _REQUESTS.get(verb)
    body = {
        "text": openai.CANARY,
        "sampling_params": {"max_new_tokens": 8, "temperature": 0.0},
    }
    return HttpRequest(
        path="/generate",
        method="POST",
        body=msgspec.json.encode(body),
        timeout_s=120.0,
        otherwise=openai.canary(model),
    )


def running(body: bytes) -> int | None:
    """Sum the running requests over the replicas of /v1/loads."""
    try:
        loads = msgspec.json.decode(body).get("loads")
        return sum(int(row.get("num_running_reqs") or 0) for row in loads) if loads else None
    except (*NOT_JSON, AttributeError, TypeError, ValueError):
        return None
