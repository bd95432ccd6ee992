"""Is the server that answers the one that was asked for? Pure comparison of its own words.

`/server_info` repeats every resolved argument (SGLang 0.4.6 to 0.5.23). A server may rewrite what
it was given; the rewrites that its sources announce are known here and are no difference.
"""

from collections.abc import Mapping
from typing import Any

from specbench.model.facts import Finding
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec

_ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "attention_data_parallel_size": "attn_dp_size",
    "speculative_draft_model": "speculative_draft_model_path",
}
_PARALLEL = frozenset({"tp_size", "pp_size", "dp_size", "ep_size", "attn_dp_size"})

# Never repeated verbatim by the server: secrets, addresses that a tunnel or proxy changes, and
# deprecated switches that are folded into other arguments.
_UNCOMPARED = frozenset(
    {
        "api_key",
        "admin_api_key",
        "host",
        "port",
        "config",
        "enable_dp_attention",
        "disable_cuda_graph",
        "cuda_graph_max_bs",
        "cuda_graph_bs",
        "model_path",
        "served_model_name",
    }
)
_SIMULATION = "SGLANG_SIMULATE_ACC_LEN"
_FORCED_GREEDY = "SGLANG_NGRAM_FORCE_GREEDY_VERIFY"


def compare(
    spec: LaunchSpec,
    server_info: Mapping[str, Any],
    model_info: Mapping[str, Any],
    *,
    concurrency: int | None = None,
) -> tuple[Finding, ...]:
    """List every way in which the running server differs from what was asked for.

    `concurrency` is the largest that will be driven; None skips that check. Fields that a server
    does not report are not judged: silence is no agreement, and no difference either.
    """
    return (
        *_model(spec, server_info, model_info),
        *_algorithm(spec, server_info),
        *_arguments(spec, server_info),
        *_contamination(spec, server_info),
        *_thresholds(server_info),
        *_cap(server_info, concurrency),
    )


def _model(
    spec: LaunchSpec, server_info: Mapping[str, Any], model_info: Mapping[str, Any]
) -> list[Finding]:
    found = []
    path = model_info.get("model_path", server_info.get("model_path"))
    name = model_info.get("served_model_name", server_info.get("served_model_name"))
    if path is not None and not _same_path(str(path), spec.model_path):
        found.append(("model path", spec.model_path, path))
    if name is not None and spec.served_name and name != spec.served_name:
        found.append(("served model name", spec.served_name, name))
    return [
        Finding(
            flag="wrong_model",
            explanation=f"{what} is {answered!r}, the matrix asks for {asked!r}",
            fatal=True,
        )
        for what, asked, answered in found
    ]


def _algorithm(spec: LaunchSpec, server_info: Mapping[str, Any]) -> list[Finding]:
    if "speculative_algorithm" not in server_info:
        return []
    running = algorithm_name(server_info["speculative_algorithm"])
    asked = algorithm_name(_flags(spec).get("speculative_algorithm"))
    if not spec.speculative and running is not None:
        explanation = f"the arm {spec.algorithm!r} must not speculate, the server runs {running}"
    elif spec.speculative and running is None:
        explanation = f"the arm {spec.algorithm!r} speculates, the server does not"
    elif asked is not None and running is not None and asked != running:
        explanation = f"speculative_algorithm is {running}, {asked} was asked for"
    else:
        return []
    return [Finding(flag="args_mismatch", explanation=explanation, fatal=True)]


def _arguments(spec: LaunchSpec, server_info: Mapping[str, Any]) -> list[Finding]:
    found = []
    for name, asked in _flags(spec).items():
        if name in _UNCOMPARED or name == "speculative_algorithm" or name not in server_info:
            continue
        running = server_info[name]
        if _equal(asked, running) or _known_rewrite(name, server_info):
            continue
        found.append(
            Finding(
                flag="args_mismatch",
                explanation=f"{name} is {running!r}, {asked!r} was asked for",
                fatal=name.startswith("speculative_") or name in _PARALLEL,
            )
        )
    return found


def _contamination(spec: LaunchSpec, server_info: Mapping[str, Any]) -> list[Finding]:
    """Find variables that falsify a measurement, in the environment set or exposed."""
    found = [*contamination_of(dict(spec.env)), *exposed_contamination(server_info)]
    return list(dict.fromkeys(found))


def exposed_contamination(server_info: Mapping[str, Any]) -> list[Finding]:
    """List what a running server itself says about variables that falsify a measurement."""
    found: list[Finding] = []
    for state in states(server_info):
        exposed = state.get("env_vars")
        if isinstance(exposed, Mapping):
            found.extend(contamination_of(exposed))
    simulated = server_info.get("simulated_acceptance")
    if simulated:
        explanation = f"server_info says simulated_acceptance={simulated!r}"
        found.append(Finding(flag="simulated_acceptance", explanation=explanation))
    return found


def contamination_of(environment: Mapping[str, Any]) -> tuple[Finding, ...]:
    """List the variables of an environment that falsify a measurement.

    A simulated accept length is an input, not a result, and its text means nothing; NGRAM forced to
    verify greedily ignores the temperature.
    """
    found = []
    if _is_on(environment.get(_SIMULATION, "-1")):
        explanation = f"accept_len is an input: {_SIMULATION}={environment[_SIMULATION]}"
        found.append(Finding(flag="simulated_acceptance", explanation=explanation))
    if str(environment.get(_FORCED_GREEDY, "")).lower() in {"1", "true", "yes"}:
        explanation = f"{_FORCED_GREEDY} is set: the temperature is ignored"
        found.append(Finding(flag="forced_greedy", explanation=explanation))
    return tuple(found)


def _thresholds(server_info: Mapping[str, Any]) -> list[Finding]:
    found = []
    for name in ("speculative_accept_threshold_single", "speculative_accept_threshold_acc"):
        # A live change is shown by the scheduler's state, not by the arguments of the start.
        values = [server_info.get(name), *(state.get(name) for state in states(server_info))]
        lossy = [v for v in values if isinstance(v, int | float) and v < 1.0]
        if lossy:
            explanation = f"{name} is {min(lossy):g}: below 1 tokens are accepted that the target "
            explanation += "would not have drawn"
            found.append(Finding(flag="lossy_thresholds", explanation=explanation))
    return found


def _cap(server_info: Mapping[str, Any], concurrency: int | None) -> list[Finding]:
    limit = running_requests_limit(server_info)
    if concurrency is None or limit is None or concurrency <= limit:
        return []
    explanation = f"the server runs at most {limit} requests at once, {concurrency} will be sent"
    return [Finding(flag="server_capped_concurrency", explanation=explanation)]


def running_requests_limit(server_info: Mapping[str, Any]) -> int | None:
    """Count the requests that run at once, over all DP replicas; None where the server is silent.

    The resolved number stands in `internal_states`, one entry a DP rank; the argument itself is
    null on a server that was not given one.
    """
    effective = [
        limit
        for state in states(server_info)
        if isinstance(limit := state.get("effective_max_running_requests_per_dp"), int)
    ]
    if effective:
        return sum(effective)
    argument = server_info.get("max_running_requests")
    return argument if isinstance(argument, int) else None


def _flags(spec: LaunchSpec) -> dict[str, Level]:
    named = {flag.replace("-", "_"): value for flag, value in spec.flags if value is not None}
    return {_ALIASES.get(name, name): value for name, value in named.items()}


def states(server_info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schedulers' states, one a DP rank."""
    found = server_info.get("internal_states")
    return [s for s in found if isinstance(s, Mapping)] if isinstance(found, list) else []


def algorithm_name(value: object) -> str | None:
    """Upper case; NEXTN is an older name of EAGLE; absent, empty and NONE are one."""
    name = str(value or "NONE").upper()
    return None if name == "NONE" else {"NEXTN": "EAGLE"}.get(name, name)


def _known_rewrite(name: str, server_info: Mapping[str, Any]) -> bool:
    """Whether the server announces that it decides this argument itself (0.5.23).

    DFLASH, DSPARK: steps and topk are forced to 1. topk 1: draft tokens become steps + 1. NGRAM:
    topk becomes the breadth of its search, steps follow.
    """
    algorithm = algorithm_name(server_info.get("speculative_algorithm"))
    match name:
        case "speculative_num_steps" | "speculative_eagle_topk":
            return algorithm in {"DFLASH", "DSPARK", "NGRAM"}
        case "speculative_num_draft_tokens":
            steps = server_info.get("speculative_num_steps")
            return (
                algorithm in {"EAGLE", "EAGLE3", "STANDALONE", "FROZEN_KV_MTP"}
                and server_info.get("speculative_eagle_topk") == 1
                and isinstance(steps, int)
                and server_info.get(name) == steps + 1
            )
        case _:
            return False


def _equal(asked: Level, running: object) -> bool:
    if isinstance(asked, bool) or isinstance(running, bool):
        return str(asked).lower() == str(running).lower()
    try:
        return float(str(asked)) == float(str(running))
    except ValueError:
        pass
    if isinstance(running, list | dict):
        return True  # a list or JSON argument is parsed by the server: its text cannot be compared
    return str(asked).lower() == str(running).lower()


def _same_path(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _is_on(value: object) -> bool:
    """Whether an accept length is simulated: unset, empty and -1 are off."""
    text = str(value).strip()
    try:
        return float(text) > 0
    except ValueError:
        return False
