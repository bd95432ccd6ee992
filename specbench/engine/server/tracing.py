"""A trace under launch flags: resolve them as the server does, then decode one request."""

import shlex
from collections.abc import Iterator

from specbench.engine.lm import load_language
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import Sequence
from specbench.engine.server import args as arguments
from specbench.engine.server.build import build_decoder
from specbench.engine.trace import trace_request


def trace_lines(text: str, flags: str, temperature: float, max_tokens: int) -> Iterator[str]:
    """Yield the lines of one request's trace; ends the process as the server does on bad flags.

    The first token comes from the prefill, by the plain sampler, so it belongs to no round.
    """
    args = arguments.read(["--model-path", "trace", *shlex.split(flags)])
    language = load_language()
    params = SamplingParams(max_new_tokens=max_tokens, temperature=temperature)
    sequence = Sequence("trace", language.tokenizer.encode(text), params)
    decoder = build_decoder(language, args)
    yield f"prompt: {len(sequence.prompt_ids)} tokens"
    for told in trace_request(decoder, sequence):
        yield ""
        yield from told.lines()
    yield ""
    yield f"text: {decoder.text(sequence.output_ids)!r}"
    if sequence.verify_ct:
        accept_len = 1 + sequence.accepted / sequence.verify_ct
        yield (
            f"accept_len: {accept_len:.2f} = 1 + {sequence.accepted} accepted drafts / "
            f"{sequence.verify_ct} verify steps; histogram {sequence.histogram}"
        )
    else:
        yield f"accept_len: 1.00, {len(sequence.output_ids)} tokens one by one"
