"""The text of an answer against its tokens, where no log-probabilities bring the pieces along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from specbench.verify.draws.book import Book
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.wire import Completion

_SPECIAL = re.compile(r"<[^<>]*>")
# One odd text may be a token that is spelt otherwise when it stands alone.
_LEAST = 2


def run_text(book: Book) -> Evidence | None:
    """Compare long texts with the joined pieces of their tokens, as one-token answers spell them.

    Characters that are split over tokens, and answers with a token that never came alone, are left
    out; white space does not count.
    """
    known = [p for p in book.session.seen.long_answers if _judged(p, book.session.seen.pieces)]
    wrong = [part for part in known if not _agrees(part, book.session.seen.pieces)]
    if not known:
        book.session.seen.not_tested.append("text against tokens: too few tokens came alone")
        return None
    if len(wrong) >= _LEAST:
        for _ in wrong:
            book.session.odd("text", "the text is not the text of the returned tokens")
    return Evidence(
        name="text of the answers",
        stage="text",
        method="long texts against the joined pieces of one-token answers",
        n_tokens=sum(len(part.ids) for part in known),
        concurrency=book.session.client.concurrency,
        note=f"{len(wrong)} of {len(known)} texts differ",
    )


def _judged(part: Completion, pieces: Mapping[int, str]) -> bool:
    inner = part.ids[1:]
    return all(t in pieces for t in inner) and "\ufffd" not in part.text + _joined(inner, pieces)


def _agrees(part: Completion, pieces: Mapping[int, str]) -> bool:
    """Whether the text ends as its tokens do; the first token, of prefill, never came alone."""
    text = "".join(part.text.split())
    ends = (part.ids[1:], part.ids[1:-1] if part.matched is not None else part.ids[1:])
    return any(text.endswith(_joined(ids, pieces)) for ids in ends)


def _joined(ids: Sequence[int], pieces: Mapping[int, str]) -> str:
    spelt = (pieces[t] for t in ids if not _SPECIAL.fullmatch(pieces[t]))
    return "".join("".join(spelt).split())
