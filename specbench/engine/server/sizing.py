"""How much fits on the modelled GPU: weights, KV tokens, requests at once, captured graphs."""

from typing import Any

from specbench.engine.server.clock import BYTES_PER_WEIGHT, GPUS, MODELS, Clock, guess_model
from specbench.engine.server.constraints import effective_running_requests

MAX_KV_TOKENS = 262_144
"""The engine really keeps the KV of its cache; a modelled GPU may hold more than this machine."""
DEFAULT_CONTEXT = 32_768
GRAPH_GB = 1.2
SPECULATIVE_GRAPH_BS = 48
PLAIN_GRAPH_BS = 256


def clock_of(args: dict[str, Any]) -> Clock:
    """Build the clock of resolved arguments. Raises ValueError for an unknown GPU or model."""
    gpu, model = (
        args["gpu"].lower(),
        (args["clock_model"] or guess_model(args["model_path"])).lower(),
    )
    if gpu not in GPUS:
        raise ValueError(f"unknown GPU {gpu!r}; known: {', '.join(GPUS)}")
    if model not in MODELS:
        raise ValueError(f"unknown clock model {model!r}; known: {', '.join(MODELS)}")
    return Clock(
        GPUS[gpu],
        MODELS[model],
        tp=args["tp_size"],
        pp=args["pp_size"],
        dp=args["dp_size"],
        ep=args["ep_size"],
        graph_max_bs=max(graph_batch_sizes(args), default=0),
    )


def graph_batch_sizes(args: dict[str, Any]) -> list[int]:
    """Batch sizes whose decode graphs are captured; none when graphs are off."""
    if args["disable_decode_cuda_graph"] or args["cuda_graph_backend_decode"] == "disabled":
        return []
    if args["cuda_graph_bs_decode"]:
        return sorted(args["cuda_graph_bs_decode"])
    speculative = args["speculative_algorithm"] is not None
    top = args["cuda_graph_max_bs_decode"] or min(
        effective_running_requests(args), SPECULATIVE_GRAPH_BS if speculative else PLAIN_GRAPH_BS
    )
    return sorted({n for n in (1, 2, 4, 8, 12, 16, *range(24, top + 1, 8), top) if n <= top})


def facts_of(args: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Sizes that follow from the arguments; no KV tokens if the weights leave no room for them."""
    shards = args["tp_size"] * args["pp_size"]
    draft = clock.model.draft if args["speculative_draft_model_path"] else 0.0
    weight_gb = (clock.model.total / shards + draft) * BYTES_PER_WEIGHT / 1e9
    memory_gb = clock.gpu.memory / 1e9
    kv_gb = memory_gb * args["mem_fraction_static"] - weight_gb
    tokens = int(kv_gb * 1e9 * shards / clock.model.kv_bytes)
    tokens = max(0, min(tokens, args["max_total_tokens"] or MAX_KV_TOKENS))
    graphs = graph_batch_sizes(args)
    graph_gb = GRAPH_GB if graphs else 0.0
    speculative = args["speculative_algorithm"] is not None
    phases = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
    captured = "target_verify" if speculative else "decode"
    return {
        "context_len": args["context_length"] or DEFAULT_CONTEXT,
        "kv_tokens": tokens,
        "running": effective_running_requests(args),
        "graph_bs": graphs,
        "world_size": shards * args["dp_size"],
        "memory_gb": memory_gb,
        "weight_gb": weight_gb,
        "draft_gb": draft * BYTES_PER_WEIGHT / 1e9,
        "memory_usage": {
            "weight": round(weight_gb, 3),
            "kvcache": round(tokens * clock.model.kv_bytes / shards / 1e9, 3),
            "startup_available": round(memory_gb, 3),
            "token_capacity": tokens,
            "token_capacity_swa": None,
            "graph": {phase: graph_gb if phase == captured else 0.0 for phase in phases},
        },
    }
