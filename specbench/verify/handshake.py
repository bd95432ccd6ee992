"""What the server is, what it can do, and whether there is anything to verify."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from specbench.backends.sglang.identity import exposed_contamination
from specbench.errors import HostError
from specbench.verify.client import Client, Refused
from specbench.verify.wire import Ask

RANKS = 20
# A vocabulary bound that no model exceeds today; a larger one only weakens one bet.
VOCAB_BOUND = 2**18
_VLLM_RUNNING = re.compile(r"^vllm:num_requests_running\S* (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Server:
    """Facts of the handshake. `speculative` None: the server does not say.

    `abilities` is a subset of {"ids", "score", "logprobs", "logit_bias", "n", "flush"};
    `identity` changes when the process is another one; `simulated` is how the server says that its
    acceptance is an input, empty where it does not.
    """

    dialect: str
    version: str
    model: str
    speculative: bool | None
    algorithm: str
    draft_tokens: int | None
    context: int
    running_cap: int | None
    thresholds: tuple[float, float]
    device: str
    identity: str
    busy: int
    abilities: frozenset[str] = frozenset()
    vocab: int = VOCAB_BOUND
    facts: tuple[tuple[str, Any], ...] = ()
    simulated: str = ""


def shake_hands(client: Client) -> Server:
    """Identify the server and try each ability once; sets the client's dialect.

    Raises:
        HostError: nobody answers, or nothing that gives token ids.
        InputError: the server wants an API key.

    """
    info = client.get("/server_info") or client.get("/get_server_info")
    server = _sglang(client, info) if isinstance(info, dict) and info else _vllm(client)
    client.model = server.model
    client.draft_tokens = server.draft_tokens
    return _try_abilities(client, server)


def identity(client: Client) -> str:
    """Return what tells one process from the next; empty where the server gives nothing."""
    if client.dialect == "vllm":
        return "".join(re.findall(r"process_start_time_seconds \S+", client.text("/metrics")))
    info = client.get("/server_info") or client.get("/get_server_info") or {}
    return _identity(info) if isinstance(info, dict) else ""


def running(client: Client) -> int | None:
    """Return how many requests the server says it is working on; None where it does not say."""
    if client.dialect == "vllm":
        found = _VLLM_RUNNING.findall(client.text("/metrics"))
        return sum(int(float(count)) for count in found) if found else None
    loads = client.get("/v1/loads")
    rows = loads.get("loads") if isinstance(loads, dict) else None
    return sum(int(r.get("num_running_reqs") or 0) for r in rows) if rows else None


def _sglang(client: Client, info: dict[str, Any]) -> Server:
    client.dialect = "sglang"
    algorithm = info.get("speculative_algorithm")
    states = info.get("internal_states") or [{}]
    context = info.get("context_length") or info.get("max_req_input_len") or 4096
    caps = [state.get("effective_max_running_requests_per_dp") or 0 for state in states]
    cap = sum(caps) if all(caps) else info.get("max_running_requests")
    kept = (
        *("version", "model_path", "tokenizer_path", "dtype", "quantization", "kv_cache_dtype"),
        *("device", "attention_backend", "sampling_backend", "random_seed", "tp_size"),
        *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk"),
        *("speculative_num_draft_tokens", "page_size", "disable_radix_cache"),
        *("disable_overlap_schedule", "enable_deterministic_inference"),
    )
    return Server(
        dialect="sglang",
        version=str(info.get("version") or ""),
        model=str(info.get("served_model_name") or info.get("model_path") or ""),
        speculative=algorithm not in (None, "", "NONE"),
        algorithm=str(algorithm or ""),
        draft_tokens=info.get("speculative_num_draft_tokens"),
        context=int(context),
        running_cap=int(cap) if cap else None,
        thresholds=(
            float(_or_one(info.get("speculative_accept_threshold_single"))),
            float(_or_one(info.get("speculative_accept_threshold_acc"))),
        ),
        device=str(info.get("device") or ""),
        identity=_identity(info),
        busy=running(client) or 0,
        vocab=int(info.get("vocab_size") or VOCAB_BOUND),
        facts=tuple((key, info[key]) for key in kept if key in info),
        simulated="; ".join(
            finding.explanation
            for finding in exposed_contamination(info)
            if finding.flag == "simulated_acceptance"
        ),
    )


def _vllm(client: Client) -> Server:
    client.dialect = "vllm"
    models = client.get("/v1/models")
    rows = models.get("data") if isinstance(models, dict) else None
    if not rows:
        raise HostError(
            f"{client.url} answers, but not as a server of language models",
            where="/server_info and /v1/models",
            hint="--url is the base URL, for example http://127.0.0.1:30000",
        )
    said = client.get("/version")
    version = str(said.get("version") or "") if isinstance(said, dict) else ""
    metrics = client.text("/metrics")
    return Server(
        dialect="vllm",
        version=version,
        model=str(rows[0]["id"]),
        speculative="vllm:spec_decode_num_drafts" in metrics if metrics else None,
        algorithm="",
        draft_tokens=None,
        context=int(rows[0].get("max_model_len") or 4096),
        running_cap=None,
        thresholds=(1.0, 1.0),
        device="",
        identity=identity(client),
        busy=running(client) or 0,
        facts=(("version", version), ("model", rows[0]["id"])),
    )


def _try_abilities(client: Client, server: Server) -> Server:
    found: set[str] = set()
    try:
        ids = client.tokenise("The quick brown fox jumps over the lazy dog.")
    except Refused:
        return server
    found.add("ids")
    if _can_score(client, ids):
        found.add("score")
    plain = Ask(ids=ids, max_tokens=2)
    if _works(client, replace(plain, logprobs=True), lambda c: len(c[0].logp) == len(c[0].ids)):
        found.add("logprobs")
    if _works(client, replace(plain, n=2, temperature=1.0), lambda c: len(c) == 2):
        found.add("n")
    biased = replace(plain, max_tokens=1, logit_bias=((ids[0], 100.0),))
    if _works(client, biased, lambda c: c[0].ids[:1] == ids[:1]):
        found.add("logit_bias")
    if client.flush():
        found.add("flush")
    return replace(server, abilities=frozenset(found))


def _can_score(client: Client, ids: tuple[int, ...]) -> bool:
    """Try with no generated token, then with one: some servers refuse to generate none."""
    for least_new in (0, 1):
        client.least_new = least_new
        try:
            out = client.score(ids, 2, RANKS)
        except Refused:
            continue
        if len(out.top_ids) == len(out.ids) and all(len(row) >= 2 for row in out.top_ids):
            return True
    return False


def _works(client: Client, ask: Ask, check: Any) -> bool:
    try:
        return bool(check(client.generate(ask)))
    except Refused:
        return False


def _identity(info: dict[str, Any]) -> str:
    start = info.get("startup_time")
    return "|".join(str(x) for x in (start, info.get("random_seed"), info.get("launch_command")))


def _or_one(value: Any) -> Any:
    return 1.0 if value is None else value
