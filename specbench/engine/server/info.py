"""`/model_info`, `/server_info`, `/v1/models` and `/v1/loads`: what the server says of itself."""

import time
from datetime import UTC, datetime
from typing import Any

from specbench.engine.server.backend import Backend

Json = dict[str, Any]
VERSION = "0.5.23"
"""The SGLang version whose surface is reproduced."""


def model_info(backend: Backend) -> Json:
    """Return the model as asked for at the launch: any path is accepted."""
    args = backend.args
    return {
        "model_path": args["model_path"],
        "served_model_name": args["served_model_name"],
        "tokenizer_path": args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": args["preferred_sampling_params"],
        "weight_version": args["weight_version"],
        "load_format": args["load_format"],
        "reasoning_parser": args["reasoning_parser"],
        "tool_call_parser": args["tool_call_parser"],
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "specbench_engine",
        "architectures": ["SpecbenchReferenceEngine"],
    }


def models(backend: Backend) -> Json:
    """Return the model list of the OpenAI API."""
    name = backend.args["served_model_name"]
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "sglang",
                "root": name,
                "parent": None,
                "max_model_len": backend.facts["context_len"],
            }
        ],
    }


def server_info(backend: Backend) -> Json:
    """Return resolved arguments, launch command, sizes, start-up times and internal states."""
    facts, args = backend.facts, _public(backend.args)
    return args | {
        "launch_command": facts["launch_command"],
        "status": "ready",
        "max_total_num_tokens": facts["kv_tokens"],
        "max_req_input_len": facts["context_len"] - 6,
        "startup_time": facts["startup_time"] | {"tokenizer_e2e": facts["tokenizer_s"]},
        "kv_events": None,
        "internal_states": [_internal_state(backend) for _ in range(args["dp_size"])],
        "version": VERSION,
        "frontend": "python",
        "specbench_engine": {
            "time_scale": args["time_scale"],
            "gpu": args["gpu"],
            "clock_model": args["clock_model"],
            "noise_sd": args["noise_sd"],
            "faults": sorted(args["fault"]),
            "steps": backend.scheduler.machine.pace.steps,
            "late_steps": backend.scheduler.machine.pace.late_steps,
        },
    }


def _public(args: Json) -> Json:
    """Arguments without secrets."""
    hidden = {key: "<redacted>" for key in ("api_key", "admin_api_key") if args[key] is not None}
    return args | hidden


def _internal_state(backend: Backend) -> Json:
    facts, stats = backend.facts, backend.scheduler.statistics
    state = _public(backend.args) | {
        "world_size": facts["world_size"],
        "startup_time": facts["startup_time"],
        "effective_max_running_requests_per_dp": facts["running"],
        "last_gen_throughput": stats.gen_throughput,
        "memory_usage": facts["memory_usage"],
        "decode_cuda_graph_bs": facts["graph_bs"],
        "decode_cuda_graph_memory_gb": facts["memory_usage"]["graph"]["decode"],
    }
    if stats.width > 1 and stats.avg_accept_length is not None:
        state["avg_spec_accept_length"] = stats.avg_accept_length
    return state


def loads(backend: Backend) -> Json:
    """Return a snapshot of queue and batch.

    As in SGLang its accept_length is cumulative and its accept_rate that of the last window.
    """
    scheduler, stats = backend.scheduler, backend.scheduler.statistics
    held, capacity = scheduler.held_tokens(), scheduler.machine.pool.capacity
    limit = scheduler.limits.running
    now = time.time()
    load: Json = {
        "timestamp": now,
        "dp_rank": 0,
        "num_running_reqs": len(scheduler.running),
        "num_waiting_reqs": len(scheduler.waiting),
        "num_used_tokens": held,
        "num_total_tokens": held,
        "max_total_num_tokens": capacity,
        "max_running_requests": limit,
        "token_usage": round(held / capacity, 4),
        "gen_throughput": round(stats.shown_throughput(), 2),
        "cache_hit_rate": round(stats.cache_hit_rate, 4),
        "utilization": round(len(scheduler.running) / limit, 4),
        "memory": {
            "weight_gb": backend.facts["memory_usage"]["weight"],
            "kv_cache_gb": backend.facts["memory_usage"]["kvcache"],
            "graph_gb": backend.facts["memory_usage"]["graph"]["decode"],
            "token_capacity": capacity,
        },
    }
    if stats.width > 1:
        load["speculative"] = {
            "accept_length": stats.avg_accept_length or 0.0,
            "accept_rate": stats.last_accept_rate,
        }
    load["queues"] = {
        "waiting": len(scheduler.waiting),
        "grammar": 0,
        "paused": 0,
        "retracted": sum(1 for request in scheduler.waiting if request.retractions),
        "prealloc_ready": 0,
    }
    return {
        "timestamp": datetime.fromtimestamp(now, UTC).isoformat(),
        "version": VERSION,
        "accelerator": backend.args["gpu"],
        "num_accelerators": backend.facts["world_size"],
        "loads": [load],
    }
