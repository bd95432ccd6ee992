"""SGLang, 0.4.6 to 0.5.23."""

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.backends.arguments import arguments
from specbench.backends.backend import (
    Ask,
    HttpRequest,
    LogReader,
    Pin,
    Preflight,
    Quirks,
    Rank,
    ReplyReader,
    Verb,
)
from specbench.backends.json_object import json_object
from specbench.backends.logs import LogFollower
from specbench.backends.openai.backend import encode
from specbench.backends.openai.replies import OpenAiReader
from specbench.backends.paths import path_of
from specbench.backends.scored import Answer, Scored
from specbench.backends.sglang import (
    answers,
    control,
    failures,
    identity,
    preflight,
    requests,
    rules,
)
from specbench.backends.sglang.facts import facts
from specbench.backends.sglang.logs import LoadTracker
from specbench.backends.sglang.replies import DIALECT, GenerateReader
from specbench.backends.sglang.values import VALUES
from specbench.model.facts import Finding, ServerFacts
from specbench.model.host import Address
from specbench.model.load import Api, RequestRecord
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure


class Sglang:
    """SGLang's server."""

    name = "sglang"
    title = "SGLang"
    paths: Mapping[Api, str] = requests.PATHS
    speaks: tuple[Verb, ...] = ("info",)
    module: str | None = "sglang"
    head: tuple[str, ...] = ("{python}", "-m", preflight.MODULE)
    pin: Pin | None = Pin(
        flag="max-running-requests",
        at_least=64,
        # 0.5.23, arg_groups/speculative_hook.py
        why="SGLang caps speculative servers at 48 in silence",
    )
    name_flag = "speculative-algorithm"
    id_api: Api | None = "generate"
    quirks = Quirks(
        min_p_gap="min_p is ignored in SGLang's verify paths (#10617)",
        composition_gap="SGLang decides top_k and top_p together when it decodes, and top_p on "
        "what top_k left when it verifies",
        penalty_gap="SGLang's penalties count the last token of a verify step at most, none of its "
        "accepted drafts (its source: a relaxed version of penalties)",
        greedy_gap="SGLang does this on CPU and XPU (and wherever its sampling kernel is not "
        "available): a known upstream gap, see the server's device",
    )
    recorded = VALUES
    variables: Mapping[str, str] = {}

    def command(
        self, spec: LaunchSpec, address: Address, head: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Write the command line."""
        fixed: list[tuple[str, Level]] = [
            ("model-path", spec.model_path),
            ("served-model-name", spec.served_name or None),
            ("host", address.host),
            ("port", address.port),
        ]
        given = {flag for flag, _ in spec.flags}
        flags = [*((flag, value) for flag, value in fixed if flag not in given), *spec.flags]
        return (*(head or self.head), *arguments(flags))

    def rank_flags(self, rank: Rank) -> tuple[tuple[str, Level], ...] | None:
        """Give the flags of one rank; the ports after the meeting point are taken too."""
        return (
            ("nnodes", rank.count),
            ("node-rank", rank.index),
            ("dist-init-addr", rank.meeting_point),
        )

    def preflight(self, argv: Sequence[str]) -> Preflight | None:
        """Let SGLang's own parser judge a command line."""
        return preflight.preflight(argv)

    def invalid_reason(self, spec: LaunchSpec, version: str | None = None) -> str | None:
        """Say why it cannot run a launch."""
        return rules.invalid_reason(spec, version)

    def log_reader(self) -> LogReader:
        """Make a reader for its log."""
        return LogFollower(LoadTracker().read, failures.match)

    def diagnose(
        self, lines: Sequence[str], *, exit_status: int | None = None
    ) -> LoadFailure | None:
        """Explain a failure by the last lines."""
        return failures.diagnose(lines, exit_status=exit_status)

    def control(self, verb: Verb, *, model: str = "") -> HttpRequest | None:
        """Give the request that does something."""
        return control.control(verb, model)

    def read(self, verb: Verb, body: bytes) -> dict[str, Any]:
        """Record /server_info as it is."""
        del verb
        return json_object(body)

    def recognises(self, models: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Know it by the owner of its models, or by keys that /server_info alone has."""
        return models.get("owned_by") == "sglang" or "tp_size" in info or "internal_states" in info

    def facts(self, info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
        """Read the server's own words."""
        return facts(info, model)

    def findings(
        self,
        spec: LaunchSpec,
        info: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        concurrency: int | None = None,
    ) -> tuple[Finding, ...]:
        """List every way in which it differs from what was asked for."""
        return identity.compare(spec, info, model, concurrency=concurrency)

    def contamination(self, environment: Mapping[str, Any]) -> tuple[Finding, ...]:
        """List the variables that falsify a measurement."""
        return identity.contamination_of(environment)

    def running(self, body: bytes) -> int | None:
        """Read /v1/loads."""
        return control.running(body)

    def request(self, ask: Ask) -> HttpRequest:
        """Build a generation request."""
        path = path_of(self.paths, ask.api, self.title)
        return HttpRequest(path=path, method="POST", body=encode(requests.body(ask)))

    def reader(self, api: Api, record: RequestRecord, *, keep_text: bool) -> ReplyReader:
        """Make the reader of one reply."""
        if api == "generate":
            return GenerateReader(record, keep_text=keep_text)
        return OpenAiReader(DIALECT, record, keep_text=keep_text)

    def answers(self, ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
        """Read whole answers by token ids."""
        return answers.answers(ask, payloads)

    def score(
        self, ids: Sequence[int], start: int, top: int, *, model: str, least_new: int = 0
    ) -> HttpRequest | None:
        """Ask for the target's conditionals at ids[start:]."""
        del model
        return answers.score(ids, start, top, least_new=least_new)

    def scores(self, ids: Sequence[int], start: int, body: bytes) -> Scored:
        """Read the target's conditionals."""
        return answers.scores(ids, start, body)

    def tokenise(self, text: str, *, model: str) -> HttpRequest | None:
        """Ask for the ids of a text."""
        del model
        return answers.tokenise(text)

    def token_ids(self, body: bytes) -> tuple[int, ...]:
        """Read the ids of a text."""
        return answers.token_ids(body)
