"""llama.cpp's server, by what build 11434 does."""

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.backends import typed
from specbench.backends.arguments import arguments
from specbench.backends.backend import (
    Ask,
    HttpRequest,
    LogReader,
    Pin,
    Preflight,
    Quirks,
    Rank,
    RecordedValues,
    ReplyReader,
    Verb,
)
from specbench.backends.json_object import json_object
from specbench.backends.llamacpp import logs, native
from specbench.backends.llamacpp.replies import DIALECT
from specbench.backends.openai import control as openai
from specbench.backends.openai import requests
from specbench.backends.openai.backend import encode, first_model, wrong_name
from specbench.backends.openai.replies import OpenAiReader
from specbench.backends.paths import path_of
from specbench.backends.prometheus import total
from specbench.backends.scored import Answer, Malformed, Scored
from specbench.model.facts import Finding, ServerFacts
from specbench.model.host import Address
from specbench.model.load import Api, RequestRecord
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure

_REQUESTS: dict[Verb, HttpRequest] = {
    "alive": HttpRequest(path="/health"),
    "health": HttpRequest(path="/health"),  # 503 while it loads
    "models": openai.MODELS,
    "info": HttpRequest(path="/props"),
    "metrics": HttpRequest(path="/metrics"),
    "running": HttpRequest(path="/metrics"),
}
_SYNTHETIC = ("spec-synth-len", "spec-synth-rates")
_KEPT = ("total_slots", "model_alias", "model_path", "build_info", "is_sleeping")


class LlamaCpp:
    """llama.cpp's server."""

    name = "llamacpp"
    title = "llama.cpp's server"
    paths: Mapping[Api, str] = {"generate": "/completion", **requests.PATHS}
    speaks: tuple[Verb, ...] = ("models", "info", "metrics")
    module: str | None = None
    head: tuple[str, ...] = ("llama-server",)
    pin: Pin | None = None
    name_flag = "spec-type"
    id_api: Api | None = "generate"
    quirks = Quirks(one_answer=True, withholds_split_characters=True)
    recorded = RecordedValues(
        forced=("*.spec-*",),
        lossy=("*.spec-synth-*",),
        caps=("*.total_slots", "flag.parallel"),
    )
    variables: Mapping[str, str] = {}

    def command(
        self, spec: LaunchSpec, address: Address, head: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Write the command line; metrics are asked for, since they are not default."""
        fixed: list[tuple[str, Level]] = [
            ("model", spec.model_path),
            ("alias", spec.served_name or None),
            ("host", address.host),
            ("port", address.port),
            ("metrics", True),
        ]
        given = {flag for flag, _ in spec.flags}
        flags = [*((flag, value) for flag, value in fixed if flag not in given), *spec.flags]
        return (*(head or self.head), *arguments(flags))

    def rank_flags(self, rank: Rank) -> tuple[tuple[str, Level], ...] | None:
        """Refuse several nodes."""
        del rank
        return None

    def preflight(self, argv: Sequence[str]) -> Preflight | None:
        """Leave flags to the launch, which refuses a wrong one at once."""
        del argv
        return None

    def invalid_reason(self, spec: LaunchSpec, version: str | None = None) -> str | None:
        """Say why it cannot run a launch."""
        del version
        flags = dict(spec.flags)
        kind = str(flags.get("spec-type") or "none")
        if spec.speculative and kind == "none":
            return f"{spec.algorithm} names no type (spec-type)"
        if kind in ("draft-simple", "draft-eagle3") and not flags.get("spec-draft-model"):
            return f"{kind} needs a draft model (the factor draft)"
        return None

    def log_reader(self) -> LogReader:
        """Make a reader for its log."""
        return logs.log_reader()

    def diagnose(
        self, lines: Sequence[str], *, exit_status: int | None = None
    ) -> LoadFailure | None:
        """Explain a failure by the last lines."""
        return logs.DIAGNOSER.diagnose(lines, exit_status=exit_status)

    def control(self, verb: Verb, *, model: str = "") -> HttpRequest | None:
        """Give the request that does something. Its cache is told off request by request."""
        return openai.canary(model) if verb == "canary" else _REQUESTS.get(verb)

    def read(self, verb: Verb, body: bytes) -> dict[str, Any]:
        """Record its model, its slots and its build, and whether its metrics count drafts."""
        match verb:
            case "models":
                entry = first_model(body)
                meta = entry.get("meta")
                kept = {key: entry[key] for key in ("id", "owned_by") if key in entry}
                return {"models": kept | (meta if isinstance(meta, dict) else {})}
            case "info":
                props = json_object(body)
                return {key: props[key] for key in _KEPT if key in props}
            case "metrics":
                drafts = total(
                    body.decode(errors="replace"), "llamacpp:spec_decode_num_drafts_total"
                )
                return {} if drafts is None else {"has_draft_counters": True}
            case _:
                return {}

    def recognises(self, models: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Know it by the owner of its models, or by its slots."""
        return models.get("owned_by") == "llamacpp" or "total_slots" in info

    def facts(self, info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
        """Read its properties. It says neither whether nor how it speculates."""
        del model
        models = typed.part(info, "models")
        path = info.get("model_path")
        slots = typed.number(info.get("total_slots"))
        build = info.get("build_info")
        return ServerFacts(
            product=self.name,
            version=str(build) if build else None,
            model=str(path) if path else None,
            served_name=typed.text(models.get("id")),
            running_cap=slots,
            context=typed.number(models.get("n_ctx")),
            vocab=typed.number(models.get("n_vocab")),
            shown={"version": build, "model": path},
        )

    def findings(
        self,
        spec: LaunchSpec,
        info: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        concurrency: int | None = None,
    ) -> tuple[Finding, ...]:
        """Hold model and slots against what was asked for; tell acceptance that is an input."""
        facts = self.facts(info, model)
        found = list(wrong_name(spec, facts.served_name))
        cap = facts.running_cap
        if concurrency is not None and cap is not None and concurrency > cap:
            what = f"the server has {cap} slots, {concurrency} requests will be sent at once"
            found.append(Finding(flag="server_capped_concurrency", explanation=what))
        for flag, value in spec.flags:
            if flag in _SYNTHETIC and value is not None:
                what = f"accept_len is an input: --{flag} {value}"
                found.append(Finding(flag="simulated_acceptance", explanation=what))
        return tuple(found)

    def contamination(self, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Find synthetic acceptance, which flags of the same name set by variables too."""
        names = [n for n in environment if n.startswith("LLAMA_ARG_SPEC_SYNTH")]
        return tuple(
            Finding(
                flag="simulated_acceptance",
                explanation=f"accept_len is an input: {name}={environment[name]}",
            )
            for name in names
        )

    def running(self, body: bytes) -> int | None:
        """Read the number of busy slots out of its metrics."""
        count = total(body.decode(errors="replace"), "llamacpp:requests_processing")
        return None if count is None else int(count)

    def request(self, ask: Ask) -> HttpRequest:
        """Build a generation request. A salt asks that no cached prompt is used."""
        path = path_of(self.paths, ask.api, self.title)
        if ask.api == "generate":
            return HttpRequest(path=path, method="POST", body=encode(native.body(ask)))
        body = requests.body(ask) | requests.extended(ask.sampling)
        body["top_k"] = max(ask.sampling.top_k, 0)  # 0 is off; -1 is the size of the vocabulary
        body["repeat_penalty"] = body.pop("repetition_penalty")
        if ask.ids:
            body["return_tokens"] = True
        if ask.logprobs:
            body["logprobs"] = 1
        if ask.salt:
            body["cache_prompt"] = False
        return HttpRequest(path=path, method="POST", body=encode(body))

    def reader(self, api: Api, record: RequestRecord, *, keep_text: bool) -> ReplyReader:
        """Make the reader of one reply."""
        if api == "generate":
            return native.NativeReader(record, keep_text=keep_text)
        return OpenAiReader(DIALECT, record, keep_text=keep_text)

    def answers(self, ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
        """Read whole answers of /completion."""
        return native.answers(ask, payloads)

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
        """Ask for the ids of a text."""
        del model
        return native.tokenise(text)

    def token_ids(self, body: bytes) -> tuple[int, ...]:
        """Read the ids of a text."""
        return native.token_ids(body)
