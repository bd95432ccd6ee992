"""What llama.cpp's server adds to the replies of the OpenAI API."""

import msgspec

from specbench.backends.openai.replies import Dialect, OpenAiEvent
from specbench.model.load import RequestRecord


class Timings(msgspec.Struct, gc=False):
    """Counts of a reply; those of drafts are absent where nothing was drafted. Steps have none."""

    cache_n: int | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None


class _Event(OpenAiEvent, gc=False):
    timings: Timings | None = None


def _counters(event: _Event, record: RequestRecord) -> None:
    take_timings(event.timings, record)


def take_timings(said: Timings | None, record: RequestRecord) -> None:
    """Put the counts of a reply into its record."""
    if said is None:
        return
    if record.cached_tokens is None:
        record.cached_tokens = said.cache_n
    record.spec_steps_of = "derived"
    record.spec_proposed = said.draft_n or 0
    record.spec_accepted = said.draft_n_accepted or 0


DIALECT = Dialect(_Event, _counters)
