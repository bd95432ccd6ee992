"""`/tokenize` and `/detokenize`: the server's own tokenizer."""

from specbench.engine.server.backend import Backend
from specbench.engine.server.http import BadRequest, Exchange
from specbench.engine.server.wire import read_json, typed


async def tokenize(backend: Backend, exchange: Exchange) -> None:
    """Serve `/tokenize`: the ids of a prompt, or a list of ids for a list of prompts."""
    prompt = read_json(await exchange.body()).get("prompt")
    if isinstance(prompt, list):
        many = [backend.reader.encode(text) for text in typed(prompt, list[str], "prompt")]
        tokens: list[int] | list[list[int]] = many
        count: int | list[int] = [len(ids) for ids in many]
    else:
        tokens = backend.reader.encode(typed(prompt, str, "prompt"))
        count = len(tokens)
    length = backend.facts["context_len"]
    await exchange.json({"tokens": tokens, "count": count, "max_model_len": length})


async def detokenize(backend: Backend, exchange: Exchange) -> None:
    """Serve `/detokenize`: the text of a list of ids."""
    body = read_json(await exchange.body())
    tokens = typed(body.get("tokens"), list[int], "tokens")
    size = backend.tokenizer.vocab_size
    if any(not 0 <= token < size for token in tokens):
        raise BadRequest(f"tokens contain values outside [0, {size}).")
    skip = body.get("skip_special_tokens", True) is not False
    await exchange.json({"text": backend.tokenizer.decode(tokens, skip_special=skip)})
