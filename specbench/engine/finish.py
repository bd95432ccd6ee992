"""When a request ends, and what of a block of tokens is still its own."""

from specbench.engine.sequence import Finish, Sequence


def end_tokens(sequence: Sequence, eos_id: int) -> tuple[int, ...]:
    """Return the tokens that end this request."""
    params = sequence.params
    return params.stop_token_ids if params.ignore_eos else (eos_id, *params.stop_token_ids)


def truncate(sequence: Sequence, tokens: list[int], eos_id: int) -> tuple[list[int], Finish | None]:
    """Return the tokens that the request keeps, and why it ends if it does.

    The end token itself is kept; everything after it, or beyond max_new_tokens, is dropped.
    """
    room = sequence.params.max_new_tokens - len(sequence.output_ids)
    ends = end_tokens(sequence, eos_id)
    for place, token in enumerate(tokens[:room]):
        if token in ends:
            return tokens[: place + 1], Finish("stop", token)
    if len(tokens) >= room:
        return tokens[:room], Finish("length", sequence.params.max_new_tokens)
    return tokens, None
