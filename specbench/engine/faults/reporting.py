"""Faults of what the server says about its output."""

from dataclasses import replace

from specbench.engine.seams import Seams
from specbench.engine.sequence import Sequence, TokenLogprob


def logprobs_lie(seams: Seams) -> Seams:
    """Report half of every log-probability: too good to be true."""

    def lie(logprobs: list[TokenLogprob]) -> list[TokenLogprob]:
        return [entry._replace(logprob=entry.logprob / 2) for entry in logprobs]

    return replace(seams, logprobs=lie)


def counters_lie(seams: Seams) -> Seams:
    """Count one accepted draft too many in every other step, but not in the histogram."""
    count = seams.count

    def more(sequence: Sequence, accepted: int, proposed: int) -> None:
        count(sequence, accepted, proposed)
        sequence.accepted += sequence.verify_ct % 2

    return replace(seams, count=more)


def text_loses_characters(seams: Seams) -> Seams:
    """Lose the last character of every text whose length is a multiple of five."""
    return replace(seams, text=lambda text: text[:-1] if len(text) % 5 == 0 else text)
