"""Faults of where a request ends."""

from dataclasses import replace

from specbench.engine.seams import Seams
from specbench.engine.sequence import Finish, Sequence

DEEP_BLOCK = 4  # tokens of a round


def eos_swallowed(seams: Seams) -> Seams:
    """Notice an end token only where it is the last of its step."""
    before = seams.truncate

    def truncate(
        sequence: Sequence, tokens: list[int], eos_id: int
    ) -> tuple[list[int], Finish | None]:
        kept, finish = before(sequence, tokens, eos_id)
        inside = finish is not None and finish.type == "stop" and len(kept) < len(tokens)
        if not inside:
            return kept, finish
        room = sequence.params.max_new_tokens - len(sequence.output_ids)
        if len(tokens) < room:
            return tokens, None
        return tokens[:room], Finish("length", sequence.params.max_new_tokens)

    return replace(seams, truncate=truncate)


def eos_late(seams: Seams) -> Seams:
    """Keep the token after the end token, if the step had one."""
    before = seams.truncate

    def truncate(
        sequence: Sequence, tokens: list[int], eos_id: int
    ) -> tuple[list[int], Finish | None]:
        kept, finish = before(sequence, tokens, eos_id)
        if finish is not None and finish.type == "stop":
            kept = tokens[: len(kept) + 1]
        return kept, finish

    return replace(seams, truncate=truncate)


def length_overrun(seams: Seams) -> Seams:
    """Keep the whole last step, beyond max_new_tokens."""
    before = seams.truncate

    def truncate(
        sequence: Sequence, tokens: list[int], eos_id: int
    ) -> tuple[list[int], Finish | None]:
        kept, finish = before(sequence, tokens, eos_id)
        return (tokens if finish is not None and finish.type == "length" else kept), finish

    return replace(seams, truncate=truncate)


def token_lost(seams: Seams) -> Seams:
    """Leave the last accepted draft of deep rounds out of the output, though not of the cache."""
    before = seams.truncate

    def truncate(
        sequence: Sequence, tokens: list[int], eos_id: int
    ) -> tuple[list[int], Finish | None]:
        lost = tokens[:-2] + tokens[-1:] if len(tokens) > DEEP_BLOCK else tokens
        return before(sequence, lost, eos_id)

    return replace(seams, truncate=truncate)
