"""The backend for any OpenAI-compatible endpoint: nothing is known of it but its API."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from specbench.backends import typed
from specbench.backends.backend import (
    Ask,
    HttpRequest,
    LogEvent,
    LogReader,
    Pin,
    Preflight,
    Quirks,
    Rank,
    RecordedValues,
    ReplyReader,
    Verb,
)
from specbench.backends.openai import control, requests
from specbench.backends.openai.replies import PLAIN, OpenAiReader
from specbench.backends.paths import path_of
from specbench.backends.scored import Answer, Malformed, Scored
from specbench.model.facts import Finding, ServerFacts
from specbench.model.host import Address
from specbench.model.json_text import NOT_JSON
from specbench.model.load import Api, RequestRecord
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure

encode = msgspec.json.Encoder().encode


class OpenAi:
    """An endpoint that is attached to."""

    name = "openai"
    title = "an OpenAI-compatible server"
    paths: Mapping[Api, str] = requests.PATHS
    speaks: tuple[Verb, ...] = ("models",)
    module: str | None = None
    head: tuple[str, ...] = ()
    pin: Pin | None = None
    name_flag = ""
    id_api: Api | None = None
    quirks = Quirks()
    recorded = RecordedValues()
    variables: Mapping[str, str] = {}

    def command(
        self, spec: LaunchSpec, address: Address, head: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Say that it is never started: nothing is known of its flags."""
        del spec, address, head
        return None

    def rank_flags(self, rank: Rank) -> tuple[tuple[str, Level], ...] | None:
        """Say that it is never started."""
        del rank
        return None

    def preflight(self, argv: Sequence[str]) -> Preflight | None:
        """Say that it is never started."""
        del argv
        return None

    def invalid_reason(self, spec: LaunchSpec, version: str | None = None) -> str | None:
        """Refuse nothing: it is not known what it cannot do."""
        del spec, version
        return None

    def log_reader(self) -> LogReader:
        """Read nothing out of its log."""
        return NoGrammar()

    def diagnose(
        self, lines: Sequence[str], *, exit_status: int | None = None
    ) -> LoadFailure | None:
        """Say that it is gone, where it is."""
        if exit_status is None:
            return None
        return LoadFailure(
            pattern="exited",
            cause="nobody listens on the server's port any more",
            hint="it was not started here: see its own log",
            evidence=tuple(lines[-12:]),
        )

    def control(self, verb: Verb, *, model: str = "") -> HttpRequest | None:
        """Give the request that does something, or None."""
        return control.control(verb, model)

    def read(self, verb: Verb, body: bytes) -> dict[str, Any]:
        """Record the first of the models that it names."""
        return {"models": first_model(body)} if verb == "models" else {}

    def recognises(self, models: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Take whatever answers for one."""
        del models, info
        return True

    def facts(self, info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
        """Read the name of its model, if it says that."""
        del model
        said = typed.part(info, "models").get("id")
        name = str(said) if said else None
        return ServerFacts(product=self.name, model=name, served_name=name, shown={"model": name})

    def findings(
        self,
        spec: LaunchSpec,
        info: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        concurrency: int | None = None,
    ) -> tuple[Finding, ...]:
        """Hold the name of its model against the one asked for."""
        del concurrency
        return wrong_name(spec, self.facts(info, model).served_name)

    def contamination(self, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Know of no variable that matters."""
        del environment
        return ()

    def running(self, body: bytes) -> int | None:
        """Say that it does not tell."""
        del body
        return None

    def request(self, ask: Ask) -> HttpRequest:
        """Build a generation request. Raises InputError where the API cannot carry it."""
        return HttpRequest(
            path=path_of(self.paths, ask.api, self.title),
            method="POST",
            body=encode(requests.body(ask)),
        )

    def reader(self, api: Api, record: RequestRecord, *, keep_text: bool) -> ReplyReader:
        """Make the reader of one reply."""
        del api
        return OpenAiReader(PLAIN, record, keep_text=keep_text)

    def answers(self, ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
        """Refuse: the API gives no token ids."""
        del ask, payloads
        raise Malformed("no token ids in the answer")

    def score(
        self, ids: Sequence[int], start: int, top: int, *, model: str, least_new: int = 0
    ) -> HttpRequest | None:
        """Refuse: it gives no log-probabilities of a prompt."""
        del ids, start, top, model, least_new
        return None

    def scores(self, ids: Sequence[int], start: int, body: bytes) -> Scored:
        """Refuse: it gives none."""
        del ids, start, body
        raise Malformed("no scores in the answer")

    def tokenise(self, text: str, *, model: str) -> HttpRequest | None:
        """Refuse: the API says no token ids."""
        del text, model
        return None

    def token_ids(self, body: bytes) -> tuple[int, ...]:
        """Refuse: there are none."""
        del body
        raise Malformed("no token ids in the answer")


class NoGrammar:
    """Reads a log of which nothing is known."""

    def read(self, line: str) -> LogEvent | None:
        """Understand nothing."""
        del line
        return None

    def is_fatal(self, line: str) -> bool:
        """Take no line for the end."""
        del line
        return False


def first_model(body: bytes) -> dict[str, Any]:
    """Return the first entry of /v1/models; empty where there is none."""
    try:
        document = msgspec.json.decode(body)
    except NOT_JSON:
        return {}
    entries = document.get("data") if isinstance(document, dict) else None
    first = entries[0] if isinstance(entries, list) and entries else {}
    return first if isinstance(first, dict) else {}


def wrong_name(spec: LaunchSpec, served: str | None) -> tuple[Finding, ...]:
    """Doubt a server that serves its model under another name than asked for."""
    if not served or not spec.served_name or served in (spec.served_name, spec.model_path):
        return ()
    what = f"served model name is {served!r}, the matrix asks for {spec.served_name!r}"
    return (Finding(flag="wrong_model", explanation=what, fatal=True),)
