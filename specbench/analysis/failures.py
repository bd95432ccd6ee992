"""Why requests failed, as few words and a count each."""

from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from specbench.model.load import RequestRecord

MOST = 4
"""Kinds that a line has room for."""
SAID = 120
"""Characters of what was said of a kind that a line has room for."""

_WORDS = {
    "closed_early": "closed early",
    "no_first_byte": "no answer in time",
    "line_too_long": "a line too long",
    "too_large": "a reply too large",
    "bad_http": "not HTTP",
    "bad_json": "not a reply",
    "error_event": "an error in the stream",
    "server_abort": "aborted by the server",
    "connect_refused": "connection refused",
    "connect_timeout": "no connection in time",
}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """So many requests failed for one reason; `said` is what the server, or the wire, said of it.

    `said` is of the first of them, and may hold anything that a server sends.
    """

    reason: str
    count: int
    said: str = ""

    def __str__(self) -> str:
        said = " ".join(self.said.split())
        more = f" ({said[:SAID]})" if said and said.lower() not in self.reason.lower() else ""
        return f"{self.count} × {self.reason}{more}"  # noqa: RUF001


def failures(records: Iterable[RequestRecord]) -> tuple[Failure, ...]:
    """Group the measured requests that failed by their reason, the commonest first.

    Where a load ended before any was measured, those of its warm-up are told.
    """
    every = list(records)
    measured = [record for record in every if record.phase == "measured"]
    counts: Counter[str] = Counter()
    said: dict[str, str] = {}
    for record in measured or every:
        if record.status != "ok":
            reason = _reason(record)
            counts[reason] += 1
            said.setdefault(reason, record.detail)
    return tuple(
        Failure(reason=reason, count=count, said=said[reason])
        for reason, count in counts.most_common()
    )


def told(found: Iterable[Failure]) -> str:
    """Say in a line why requests failed: each reason with its number in front."""
    every = list(found)
    rest = sum(each.count for each in every[MOST:])
    others = [Failure(reason="other reasons", count=rest)] if rest else []
    return ", ".join(map(str, [*every[:MOST], *others]))


def _reason(record: RequestRecord) -> str:
    status = record.http_status
    if status is not None and status != HTTPStatus.OK:
        known = status in {each.value for each in HTTPStatus}
        return f"{status} {HTTPStatus(status).phrase}" if known else f"status {status}"
    return _WORDS.get(record.reason, record.reason.replace("_", " ") or record.status)
