"""`/metrics` in Prometheus text, under SGLang's names and labels."""

from collections.abc import Iterable, Iterator

from specbench.engine.server.backend import Backend
from specbench.engine.server.statistics import Histogram

Labels = dict[str, str]
Sample = tuple[str, Labels, float]


def render(backend: Backend) -> str:
    """Every metric, scheduler's and tokenizer's."""
    lines: list[str] = []
    for name, kind, samples in _metrics(backend):
        lines.append(f"# TYPE sglang:{name} {kind}")
        lines += [
            f"sglang:{key}{{{_labels(labels)}}} {float(value)!r}" for key, labels, value in samples
        ]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(backend: Backend) -> Iterator[tuple[str, str, list[Sample]]]:
    base = {"model_name": str(backend.args["served_model_name"]), "engine_type": "unified"}
    rank = base | {"tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
    stats = backend.scheduler.statistics
    for name, value in _gauges(backend).items():
        yield name, "gauge", [(name, rank, value)]
    yield from _startup(backend, base, rank)
    for name in ("num_retracted_requests_total",):
        yield name, "counter", [(name, rank, stats.counters[name])]
    modes = ("prefill_compute", "prefill_cache", "decode")
    name = "realtime_tokens_total"
    yield name, "counter", [(name, rank | {"mode": m}, stats.modes[m]) for m in modes]
    for name in ("spec_verify_calls_total", "num_aborted_requests_total"):
        yield name, "counter", [(name, base, stats.counters[name])]
    for name in (
        "num_requests_total", "prompt_tokens_total", "generation_tokens_total",
        "cached_tokens_total",
    ):  # fmt: skip
        split = _by_stream(base)
        yield name, "counter", [(name, labels, stats.by_stream[name, s]) for s, labels in split]
    yield "queue_time_seconds", "histogram", _histogram("queue_time_seconds", rank, stats.queue)
    yield from _latencies(backend, base)


def _by_stream(base: Labels) -> list[tuple[bool, Labels]]:
    return [(s, base | {"is_streaming": str(s).lower()}) for s in (False, True)]


def _latencies(backend: Backend, base: Labels) -> Iterator[tuple[str, str, list[Sample]]]:
    stats = backend.scheduler.statistics
    for name, by_stream in (
        ("time_to_first_token_seconds", stats.ttft),
        ("e2e_request_latency_seconds", stats.e2e),
    ):
        samples = [
            s
            for flag, labels in _by_stream(base)
            for s in _histogram(name, labels, by_stream[flag])
        ]
        yield name, "histogram", samples
    name = "inter_token_latency_seconds"
    yield name, "histogram", _histogram(name, base, stats.inter_token)


def _histogram(name: str, labels: Labels, histogram: Histogram) -> list[Sample]:
    samples, running = [], 0
    bounds: Iterable[str] = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        running += count
        samples.append((f"{name}_bucket", labels | {"le": bound}, float(running)))
    samples.append((f"{name}_sum", labels, histogram.total))
    samples.append((f"{name}_count", labels, float(running)))
    return samples


def _gauges(backend: Backend) -> dict[str, float]:
    scheduler, stats = backend.scheduler, backend.scheduler.statistics
    held, pool = scheduler.held_tokens(), scheduler.machine.pool
    limit = scheduler.limits.running
    running = len(scheduler.running)
    speculative = stats.width > 1
    return {
        "num_running_reqs": running,
        "num_queue_reqs": len(scheduler.waiting),
        "gen_throughput": stats.shown_throughput(),
        "cache_hit_rate": stats.cache_hit_rate,
        "token_usage": held / pool.capacity,
        "full_token_usage": held / pool.capacity,
        "num_used_tokens": held,
        "kv_used_tokens": held,
        "kv_evictable_tokens": pool.cache.size - pool.cache.held,
        "kv_available_tokens": pool.capacity - pool.used(scheduler.running),
        "spec_accept_length": stats.last_accept_length,
        "spec_accept_rate": stats.last_accept_rate,
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_num_steps": int(backend.args["speculative_num_steps"] or 0) if speculative else 0,
        "spec_num_draft_tokens": stats.width,
        "num_retracted_reqs": sum(1 for request in scheduler.waiting if request.retractions),
        "utilization": running / limit,
        "is_cuda_graph": float(0 < running <= scheduler.machine.clock.graph_max_bs),
        "max_total_num_tokens": pool.capacity,
        "page_size": int(backend.args["page_size"]),
        "context_len": int(backend.facts["context_len"]),
    }


def _startup(
    backend: Backend, base: Labels, rank: Labels
) -> Iterator[tuple[str, str, list[Sample]]]:
    memory, startup = backend.facts["memory_usage"], backend.facts["startup_time"]
    yield "weight_memory_usage_gb", "gauge", [("weight_memory_usage_gb", rank, memory["weight"])]
    name = "kv_cache_memory_usage_gb"
    yield name, "gauge", [(name, rank, memory["kvcache"])]
    name = "graph_memory_usage_gb"
    yield name, "gauge", [(name, rank | {"phase": p}, gb) for p, gb in memory["graph"].items()]
    name = "startup_time_seconds"
    phases = [(p, s) for p, s in startup.items() if isinstance(s, float)]
    yield name, "gauge", [(name, base | {"phase": p}, seconds) for p, seconds in phases]
