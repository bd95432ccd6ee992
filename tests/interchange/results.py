"""Results of other tools, small and of our own making: their field names, our numbers."""

import json
from typing import Any

Document = dict[str, Any]


def lines(*documents: Document) -> str:
    return "".join(json.dumps(one) + "\n" for one in documents)


def _latencies(names: tuple[str, ...], value: float) -> Document:
    return {
        f"{statistic}_{name}_ms": value
        for name in names
        for statistic in ("mean", "median", "std", "p99")
    }


SGLANG: Document = {
    "tag": None,
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 8,
    "server_info": {
        "version": "0.5.23",
        "speculative_algorithm": "EAGLE3",
        "internal_states": [{"avg_spec_accept_length": 2.9}],
    },
    "duration": 10.0,
    "completed": 20,
    "total_input_tokens": 400,
    "total_output_tokens": 8000,
    "output_throughput": 800.0,
    "concurrency": 7.5,
    "accept_length": 2.9,
    "errors": ["", "refused", ""],
    **_latencies(("ttft", "tpot", "itl", "e2e_latency"), 20.0),
}
ONE_BATCH: Document = {
    "run_name": "default",
    "batch_size": 4,
    "input_len": 128,
    "output_len": 64,
    "latency": 0.5,
    "output_throughput": 512.0,
    "acc_length": 2.5,
}


def _statistics(unit: str, value: float, **others: float) -> Document:
    return {"unit": unit, "avg": value, "p50": value, "p99": value, **others}


AIPERF: Document = {
    "schema_version": "1.4",
    "aiperf_version": "0.13.0",
    "run_info": {"run_label": "first", "variation_values": {"concurrency": 8}},
    "input_config": {"endpoint": {"model_names": "kimi"}},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 790.0},
    "time_to_first_token": _statistics("ms", 21.0),
    "inter_token_latency": _statistics("ms", 5.0, p99=9.0),
    "request_latency": _statistics("ms", 400.0),
    "spec_decode_token_weighted_acceptance_length": {"unit": "tokens", "avg": 2.97},
    "spec_decode_acceptance_length": {"unit": "tokens", "avg": 2.92},
    "error_request_count": {"unit": "requests", "avg": 0},
}


def _record(ttft_ns: float, accepted: int, error: Document | None = None) -> Document:
    return {
        "metadata": {"benchmark_phase": "profiling", "x_request_id": "r"},
        "metrics": {"time_to_first_token": {"value": ttft_ns, "unit": "ns"}},
        "spec_decode_acceptance": {"num_spec_steps": 4, "num_accepted_draft_tokens": accepted},
        "error": error,
    }


AIPERF_RECORDS: tuple[Document, ...] = (
    _record(10e6, 6),
    _record(30e6, 10, {"message": "cut off"}),
    {"metadata": {"benchmark_phase": "warmup"}, "metrics": {}, "error": None},
)
VLLM: Document = {
    "model_id": "kimi",
    "num_prompts": 20,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 10.0,
    "completed": 20,
    "failed": 0,
    "output_throughput": 810.0,
    "total_token_throughput": 900.0,
    "max_output_tokens_per_s": 300.0,
    "spec_decode_acceptance_length": 2.95,
    "spec_decode_acceptance_rate": 65.0,
    "spec_decode_num_drafts": 2700,
    **_latencies(("ttft", "tpot", "e2el"), 19.0),
    **_latencies(("itl",), 30.0),
}


def _distribution(value: float) -> Document:
    return {"successful": {"mean": value, "median": value, "percentiles": {"p99": value}}}


GUIDELLM: Document = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 4}},
            "duration": 10.0,
            "metrics": {
                "request_totals": {"successful": 22, "errored": 2, "total": 24},
                "request_latency": _distribution(0.5),
                "time_to_first_token_ms": _distribution(22.0),
                "inter_token_latency_ms": _distribution(4.0),
                "output_tokens_per_second": {"total": {"mean": 866.7}},
            },
        }
    ],
    "conclusions": [],
}
GENAI: Document = {
    "aggregated_metrics": {
        "scenario": "D(100,100)",
        "num_concurrency": 8,
        "mean_output_throughput_tokens_per_s": 700.0,
        "num_requests": 20,
        "num_error_requests": 0,
        "stats": {
            "ttft": {"mean": 0.02, "p50": 0.02, "p99": 0.03},
            "tpot": {"mean": 0.005, "p50": 0.005},
        },
    },
    "individual_request_metrics": [],
}
INFERENCE_PERF: Document = {
    "load_summary": {"count": 20, "concurrency": 8},
    "successes": {
        "count": 20,
        "latency": {"time_to_first_token": {"mean": 0.026, "median": 0.025}},
        "throughput": {"output_tokens_per_sec": 640.0},
    },
    "failures": {"count": 0},
}
INFERENCEX: Document = {
    "hw": "b300",
    "conc": 64,
    "framework": "sglang",
    "spec_decoding": "mtp",
    "tp": 8,
    "tput_per_gpu": 500.0,
    "output_tput_per_gpu": 250.0,
    "median_ttft": 0.12,
    "mean_tpot": 0.006,
    "median_intvty": 160.0,
}
GOLDEN = "some-model:\n  thinking_on:\n    3: 2.83\n    5: 3.1\n  thinking_off:\n    3: 2.7\n"
SPECDEC: Document = {
    "Request_AL": {"0": 3.4},
    "Average_AL": 3.4,
    "Category_AL": {"coding": 3.9},
    "Acceptance_Length_Histogram": {"1": 4, "4": 9},
}
LLAMACPP: Document = {
    "config": {"model": "tiny", "max_tokens": 128},
    "completed_samples": 2,
    "failed_samples": 1,
    "results": [
        {"ok": True, "completion_tokens": 100, "draft_n": 60, "draft_n_accepted": 30},
        {"ok": True, "completion_tokens": 200, "draft_n": 40, "draft_n_accepted": 30},
        {"ok": False, "completion_tokens": 5},
    ],
}
LLMD: Document = {
    "version": "0.2.1",
    "scenario": {"load": {"standardized": {"tool": "vllm-benchmark", "concurrency": 8}}},
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {"total": 20, "failures": 0},
                "latency": {"time_to_first_token": {"units": "s", "mean": 0.03, "p50": 0.03}},
                "throughput": {"output_token_rate": {"units": "tokens/s", "mean": 900.0}},
            }
        }
    },
}
