"""What any OpenAI-compatible server answers beside generation."""

import msgspec

from specbench.backends.backend import HttpRequest, Verb

CANARY = "The capital of France is"
MODELS = HttpRequest(path="/v1/models")


def control(verb: Verb, model: str) -> HttpRequest | None:
    """Give the request of a verb, or None. Such a server need have no health endpoint."""
    match verb:
        case "alive" | "models":
            return MODELS
        case "health":
            return HttpRequest(path="/health", otherwise=MODELS)
        case "canary":
            return canary(model)
        case _:
            return None


def canary(model: str) -> HttpRequest:
    """Ask for one short greedy reply: a completion, or a chat where there are only chats."""
    shared = {"model": model, "max_tokens": 8, "temperature": 0.0}
    chat = {**shared, "messages": [{"role": "user", "content": CANARY}]}
    return HttpRequest(
        path="/v1/completions",
        method="POST",
        body=msgspec.json.encode({**shared, "prompt": CANARY}),
        timeout_s=120.0,
        otherwise=HttpRequest(
            path="/v1/chat/completions",
            method="POST",
            body=msgspec.json.encode(chat),
            timeout_s=120.0,
        ),
    )
