"""A trace under launch flags: resolve them as the server does, then decode one request."""

import shlex
from collections.abc import Iterator

from specbench.engine.lm import load_language
from specbench.engine.sampling import SamplingParams
from specbench.engine.server import args as arguments
from specbench.engine.server.build import build_decoder
from specbench.engine.trace import trace_request


def trace_lines(text: str, flags: str, temperature: float, max_tokens: int) -> Iterator[str]:
    """Yield the lines of one request's trace; ends the process as the server does on bad flags."""
    args = arguments.read(["--model-path", "trace", *shlex.split(flags)])
    language = load_language()
    params = SamplingParams(max_new_tokens=max_tokens, temperature=temperature)
    yield from trace_request(build_decoder(language, args), text, params)
