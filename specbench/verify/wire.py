"""What losslessness is judged on: a request by token ids, and what came back."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.backends import backend as backends
from specbench.backends.backend import Backend, HttpRequest
from specbench.backends.scored import Answer, Scored
from specbench.errors import HostError
from specbench.model.load import Prompt, RequestRecord, Sampling
from specbench.verify.statistics.counters import RequestCounters

# A character has at most four bytes, so a split one has at most three tokens.
_WITHHELD = 3

__all__ = ["Ask", "Completion", "Scored", "completion", "http_request", "sent"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation request, by token ids, with every sampling field explicit."""

    ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    n: int = 1
    ignore_eos: bool = False
    stream: bool = False
    logprobs: bool = False
    top: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. `rounds` are tokens a stream chunk (empty without streaming).

    `matched` is the stop token that ended it, where the server says so and leaves it out of
    `ids`; `logp` the reported log-probabilities of `ids` (empty where not asked for), `pieces`
    the text of each token; `top_ids` and `top_logp` the `Ask.top` likeliest tokens at each place.
    """

    ids: tuple[int, ...]
    text: str
    finish: str
    matched: int | None
    logp: tuple[float, ...]
    pieces: tuple[str, ...]
    rounds: tuple[int, ...]
    counters: RequestCounters
    cached_tokens: int | None = None
    top_ids: tuple[tuple[int, ...], ...] = ()
    top_logp: tuple[tuple[float, ...], ...] = ()


def sent(ask: Ask, backend: Backend, model: str) -> backends.Ask:
    """Return a request in the words of backends. Raises HostError where there are no token ids."""
    if backend.id_api is None:
        raise HostError(f"{backend.title} has no API that takes and gives token ids")
    return backends.Ask(
        prompt=Prompt(prompt_id="", input_ids=ask.ids),
        sampling=Sampling(
            temperature=ask.temperature,
            top_p=ask.top_p,
            top_k=ask.top_k or -1,
            min_p=ask.min_p,
            max_tokens=ask.max_tokens,
            ignore_eos=ask.ignore_eos,
            frequency_penalty=ask.frequency_penalty,
        ),
        api=backend.id_api,
        model=model,
        stream=ask.stream,
        ids=True,
        logprobs=ask.logprobs,
        top=ask.top,
        n=ask.n,
        bias=ask.logit_bias,
    )


def http_request(ask: Ask, backend: Backend, model: str) -> HttpRequest:
    """Return a request as it is sent."""
    return backend.request(sent(ask, backend, model))


def completion(
    ask: Ask, answer: Answer, draft_tokens: int | None, *, withholds: bool = False
) -> Completion:
    """Put an answer beside what was asked, with its counters as far as they count every step.

    A server that `withholds` the tokens of a split character counts up to three more than it gives.
    """
    record = answer.record
    given = len(answer.ids)
    missing = (record.output_tokens or 0) - given
    every = record.spec_steps_of == "counted"
    counters = RequestCounters(
        completion_tokens=record.output_tokens,
        n_ids=given + missing if withholds and 0 < missing <= _WITHHELD else given,
        max_tokens=ask.max_tokens,
        finish=record.finish_reason or "",
        verify_ct=record.spec_verify_ct if every else None,
        correct=record.spec_accepted if every else None,
        proposed=record.spec_proposed if every else None,
        histogram=tuple(record.spec_histogram or ()),
        draft_tokens=draft_tokens if every else None,
        rounds=answer.rounds,
        derived=_derived(record),
    )
    return Completion(
        ids=answer.ids,
        text=answer.text,
        finish=counters.finish,
        matched=answer.matched,
        logp=answer.logp,
        pieces=answer.pieces,
        rounds=answer.rounds,
        counters=counters,
        cached_tokens=record.cached_tokens,
        top_ids=answer.top_ids,
        top_logp=answer.top_logp,
    )


def _derived(record: RequestRecord) -> tuple[int, int] | None:
    """Return steps and accepted drafts that follow from the tokens; None where nothing drafts."""
    if record.spec_steps_of != "derived" or record.spec_histogram or not record.spec_proposed:
        return None
    return record.spec_verify_ct or 0, record.spec_accepted or 0
