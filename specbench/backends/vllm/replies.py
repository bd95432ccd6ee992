"""What vLLM adds to the replies of the OpenAI API."""

import msgspec

from specbench.backends.openai.replies import Dialect, OpenAiEvent
from specbench.model.load import RequestRecord


class _Speculation(msgspec.Struct, gc=False):
    """`metrics.speculative_decoding` (0.32); its steps are those that had a draft."""

    num_spec_steps: int | None = None
    num_accepted_draft_tokens: int | None = None
    num_draft_tokens: int | None = None
    acceptance_histogram: list[int] | None = None
    mean_acceptance_length: float | None = None


class _Metrics(msgspec.Struct, gc=False):
    speculative_decoding: _Speculation | None = None


class _Event(OpenAiEvent, gc=False):
    metrics: _Metrics | None = None


def _counters(event: _Event, record: RequestRecord) -> None:
    if event.metrics is None or event.metrics.speculative_decoding is None:
        return
    said = event.metrics.speculative_decoding
    record.spec_steps_of = "derived"
    record.spec_drafted_steps = said.num_spec_steps
    record.spec_accept_length_server = said.mean_acceptance_length
    record.spec_accepted = said.num_accepted_draft_tokens
    record.spec_proposed = said.num_draft_tokens
    record.spec_histogram = said.acceptance_histogram


DIALECT = Dialect(_Event, _counters)
