"""vLLM, by what 0.32 does."""

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
from specbench.backends.openai import control as openai
from specbench.backends.openai import requests
from specbench.backends.openai.backend import encode, first_model, wrong_name
from specbench.backends.openai.replies import OpenAiReader
from specbench.backends.paths import path_of
from specbench.backends.prometheus import total
from specbench.backends.scored import Answer, Scored
from specbench.backends.vllm import answers, logs
from specbench.backends.vllm.replies import DIALECT
from specbench.model.facts import Finding, ServerFacts
from specbench.model.host import Address
from specbench.model.load import Api, RequestRecord
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure

_REQUESTS: dict[Verb, HttpRequest] = {
    "alive": HttpRequest(path="/version"),
    "health": HttpRequest(path="/health"),
    "models": openai.MODELS,
    "version": HttpRequest(path="/version"),
    "metrics": HttpRequest(path="/metrics"),
    "running": HttpRequest(path="/metrics"),
    # These two exist with VLLM_SERVER_DEV_MODE=1 only.
    "info": HttpRequest(path="/server_info?config_format=json"),
    "flush": HttpRequest(path="/reset_prefix_cache", method="POST", timeout_s=20.0),
    "profile_start": HttpRequest(path="/start_profile", method="POST"),
    "profile_stop": HttpRequest(path="/stop_profile", method="POST", timeout_s=300.0),
}
_SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
}
_METHOD = "speculative-config.method"
_TOKENS = "speculative-config.num_speculative_tokens"


class Vllm:
    """vLLM's server."""

    name = "vllm"
    title = "vLLM"
    paths: Mapping[Api, str] = requests.PATHS
    speaks: tuple[Verb, ...] = ("models", "version", "metrics", "info")
    module: str | None = "vllm"
    head: tuple[str, ...] = ("{python}", "-m", "vllm.entrypoints.cli.main", "serve")
    pin: Pin | None = None
    name_flag = _METHOD
    id_api: Api | None = "completions"
    recorded = RecordedValues(caps=("*.max_num_seqs", "*.max-num-seqs"))
    quirks = Quirks(
        min_p_gap="vLLM turns min_p off under speculative decoding, and says so when it starts",
        bias_gap="vLLM turns it off under speculative decoding, and says so when it starts",
        streams_show_rounds=True,
        fragile_top_k=True,  # 0.32.0 on a CPU: a verify step without any draft
        scores_afresh=True,
        sampling_faults={
            "0.32.": "if this is vLLM's CPU build: 0.32.0 never writes the temperature, top_k and "
            "top_p of its verify rows (expand_kernel fills an int64 copy of its output), so it "
            "samples with whatever the memory holds"
        },
    )
    # Development mode resets the prefix cache between trials, and tells the resolved arguments.
    variables: Mapping[str, str] = {"VLLM_SERVER_DEV_MODE": "1"}

    def command(
        self, spec: LaunchSpec, address: Address, head: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Write the command line; counters a request are asked for, since none are default."""
        fixed: list[tuple[str, Level]] = [
            ("served-model-name", spec.served_name or None),
            ("host", address.host),
            ("port", address.port),
            ("enable-per-request-metrics", True),
            ("per-request-spec-decode-metrics", "summary" if spec.speculative else None),
        ]
        given = {flag for flag, _ in spec.flags}
        flags = [*((flag, value) for flag, value in fixed if flag not in given), *spec.flags]
        return (*(head or self.head), spec.model_path, *arguments(flags))

    def rank_flags(self, rank: Rank) -> tuple[tuple[str, Level], ...] | None:
        """Refuse several nodes: they are Ray's or a supervisor's to start."""
        del rank
        return None

    def preflight(self, argv: Sequence[str]) -> Preflight | None:
        """Leave flags to the launch, which refuses a wrong one before it loads anything."""
        del argv
        return None

    def invalid_reason(self, spec: LaunchSpec, version: str | None = None) -> str | None:
        """Say why it cannot run a launch: what 0.32 refuses, or would ignore in silence."""
        del version
        flags = dict(spec.flags)
        if not spec.speculative:
            return None
        if flags.get(_METHOD) is None:
            return f"{spec.algorithm} names no method (speculative-config.method)"
        pipeline = flags.get("pipeline-parallel-size")
        if isinstance(pipeline, int) and pipeline > 1 and flags[_METHOD] not in ("ngram", "mtp"):
            return f"{flags[_METHOD]} does not run with pipeline parallelism"
        tokens = flags.get(_TOKENS)
        if isinstance(tokens, int) and tokens < 1:
            return f"{_TOKENS} must be at least 1, not {tokens}"
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
        """Give the request that does something. It has no way to end requests."""
        return openai.canary(model) if verb == "canary" else _REQUESTS.get(verb)

    def read(self, verb: Verb, body: bytes) -> dict[str, Any]:
        """Record its model, its version, its arguments, and of its metrics who it is."""
        match verb:
            case "models":
                entry = first_model(body)
                kept = ("id", "root", "max_model_len", "owned_by")
                return {"models": {key: entry[key] for key in kept if key in entry}}
            case "metrics":
                text = body.decode(errors="replace")
                return {
                    "has_draft_counters": total(text, "vllm:spec_decode_num_drafts_total")
                    is not None,
                    "startup_time": total(text, "process_start_time_seconds"),
                }
            case "version" | "info":
                return json_object(body)
            case _:
                return {}

    def recognises(self, models: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Know it by the owner of its models, or by its configuration."""
        return models.get("owned_by") == "vllm" or "vllm_config" in info

    def facts(self, info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
        """Read its arguments where it tells them, else its model and metrics."""
        del model
        config = typed.part(info, "vllm_config")
        models, draft = typed.part(info, "models"), typed.part(config, "speculative_config")
        parallel, cache = typed.part(config, "parallel_config"), typed.part(config, "cache_config")
        said = info.get("has_draft_counters")
        depth = typed.number(draft.get("num_speculative_tokens"))
        version = info.get("version")
        shown = {"version": version, "model": models.get("root") or models.get("id")}
        return ServerFacts(
            product=self.name,
            version=str(version) if version else None,
            model=typed.text(models.get("root")),
            served_name=typed.text(models.get("id")),
            speculative=bool(draft) if config else typed.switch(said),
            algorithm=str(draft["method"]) if draft.get("method") else None,
            draft_tokens=None if depth is None else depth + 1,
            draft_depth=depth,
            tree_width=1 if draft else None,
            drafter=typed.text(draft.get("model")),
            running_cap=typed.number(typed.part(config, "scheduler_config").get("max_num_seqs")),
            sizes=typed.sizes(parallel, _SIZES),
            prefix_cache=typed.switch(cache.get("enable_prefix_caching")),
            process_identity=str(info.get("startup_time") or ""),
            context=typed.number(models.get("max_model_len")),
            shown={key: value for key, value in shown.items() if value is not None},
        )

    def findings(
        self,
        spec: LaunchSpec,
        info: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        concurrency: int | None = None,
    ) -> tuple[Finding, ...]:
        """Hold model, method, draft length and cap against what was asked for."""
        facts = self.facts(info, model)
        found = list(wrong_name(spec, facts.served_name))
        asked = dict(spec.flags)
        if facts.speculative is not None and facts.speculative != spec.speculative:
            what = "speculates" if facts.speculative else "does not speculate"
            found.append(_mismatch(f"the server {what}, the arm {spec.algorithm!r} is otherwise"))
        for flag, running in ((_METHOD, facts.algorithm), (_TOKENS, facts.draft_depth)):
            wanted = asked.get(flag)
            if wanted is not None and running is not None and str(wanted) != str(running):
                found.append(_mismatch(f"{flag} is {running}, {wanted} was asked for"))
        cap = facts.running_cap
        if concurrency is not None and cap is not None and concurrency > cap:
            what = f"the server runs at most {cap} requests at once, {concurrency} will be sent"
            found.append(Finding(flag="server_capped_concurrency", explanation=what))
        draft = typed.part(typed.part(info, "vllm_config"), "speculative_config")
        if draft.get("rejection_sample_method") == "synthetic":
            what = "rejection_sample_method is synthetic: accept_len is an input"
            found.append(Finding(flag="simulated_acceptance", explanation=what))
        return tuple(found)

    def contamination(self, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Know of no variable that falsifies a measurement."""
        del environment
        return ()

    def running(self, body: bytes) -> int | None:
        """Read the number of running requests out of its metrics."""
        count = total(body.decode(errors="replace"), "vllm:num_requests_running")
        return None if count is None else int(count)

    def request(self, ask: Ask) -> HttpRequest:
        """Build a generation request."""
        body = requests.body(ask) | requests.extended(ask.sampling)
        if ask.stream:
            body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if ask.ids:
            body["return_token_ids"] = True
        if ask.logprobs:
            body |= {"logprobs": ask.top, "return_tokens_as_token_ids": True}
        if ask.salt:
            body["cache_salt"] = ask.salt
        path = path_of(self.paths, ask.api, self.title)
        return HttpRequest(path=path, method="POST", body=encode(body))

    def reader(self, api: Api, record: RequestRecord, *, keep_text: bool) -> ReplyReader:
        """Make the reader of one reply."""
        del api
        return OpenAiReader(DIALECT, record, keep_text=keep_text)

    def answers(self, ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
        """Read whole answers by token ids."""
        return answers.answers(ask, payloads)

    def score(
        self, ids: Sequence[int], start: int, top: int, *, model: str, least_new: int = 0
    ) -> HttpRequest | None:
        """Ask for the target's conditionals at ids[start:]."""
        del start, least_new
        return answers.score(ids, top, model=model)

    def scores(self, ids: Sequence[int], start: int, body: bytes) -> Scored:
        """Read the target's conditionals."""
        return answers.scores(ids, start, body)

    def tokenise(self, text: str, *, model: str) -> HttpRequest | None:
        """Ask for the ids of a text."""
        return answers.tokenise(text, model=model)

    def token_ids(self, body: bytes) -> tuple[int, ...]:
        """Read the ids of a text."""
        return answers.token_ids(body)


def _mismatch(explanation: str) -> Finding:
    return Finding(flag="args_mismatch", explanation=explanation, fatal=True)
