"""Scores from one-token requests, for servers that score no prompts: one request a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.verify.client import Client, Refused
from specbench.verify.wire import Ask, Completion, Scored


@dataclass(frozen=True, slots=True)
class OneTokenScores:
    """Answers what `Client.score_all` answers, by the likeliest next tokens at every context.

    A token beyond these has the log-probability of the last of them: an upper limit, so that its
    regret is a lower one.
    """

    client: Client

    def __call__(self, jobs: Sequence[tuple[tuple[int, ...], int]], top: int) -> list[Scored]:
        """Score the ids of every job from its start on.

        Raises:
            Refused: an answer without the likeliest tokens.

        """
        asks = [
            Ask(ids=ids[:place], max_tokens=1, ignore_eos=True, logprobs=True, top=top)
            for ids, start in jobs
            for place in range(start, len(ids))
        ]
        answers = iter(self.client.generate_all(asks))
        return [
            _joined(ids[start:], [next(answers)[0] for _ in range(start, len(ids))])
            for ids, start in jobs
        ]


def _joined(ids: tuple[int, ...], answers: Sequence[Completion]) -> Scored:
    """Put the answers in a row.

    Some servers withhold a token that ends inside a character, and its scores: whether they do
    depends on the context alone, and a context that is taken as settled says nothing in any test.
    """
    known = [bool(part.top_ids and part.top_ids[0]) for part in answers]
    if 2 * sum(known) < len(known):
        raise Refused(200, "answers without the likeliest next tokens")
    rows = [
        dict(zip(a.top_ids[0], a.top_logp[0], strict=True)) if has else {token: 0.0}
        for a, has, token in zip(answers, known, ids, strict=True)
    ]
    ordered = [sorted(row.items(), key=lambda kv: -kv[1]) for row in rows]
    return Scored(
        ids=ids,
        logp=tuple(row.get(t, min(row.values())) for row, t in zip(rows, ids, strict=True)),
        top_ids=tuple(tuple(t for t, _ in row) for row in ordered),
        top_logp=tuple(tuple(x for _, x in row) for row in ordered),
    )
