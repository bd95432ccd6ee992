"""The launch flags of SGLang 0.5.23 that the engine understands, and its own, as one table."""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Kind = Callable[[str], Any] | None


@dataclass(frozen=True)
class Flag:
    """One command-line flag; `kind` None makes it a switch. `resolved` puts it in /server_info."""

    name: str
    kind: Kind = str
    default: Any = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    many: bool = False
    append: bool = False
    help: str = ""

    @property
    def field(self) -> str:
        """The name in /server_info and in the parsed arguments."""
        return self.name.replace("-", "_")


def _json(text: str) -> Any:
    return json.loads(text)


SGLANG_FLAGS: tuple[Flag, ...] = (
    # Model
    Flag("model-path", aliases=("model",), help="model; any path, the embedded model answers"),
    Flag("tokenizer-path"),
    Flag("tokenizer-mode", default="auto", choices=("auto", "slow")),
    Flag("skip-tokenizer-init", None, default=False),
    Flag("load-format", default="auto", help="dummy: random weights"),
    Flag("trust-remote-code", None, default=False),
    Flag("context-length", int),
    Flag("revision"),
    Flag("dtype", default="auto"),
    Flag("quantization"),
    Flag("kv-cache-dtype", default="auto"),
    # HTTP
    Flag("host", default="127.0.0.1"),
    Flag("port", int, 30000),
    Flag("skip-server-warmup", None, default=False),
    Flag("warmups"),
    Flag("api-key"),
    Flag("admin-api-key"),
    Flag("served-model-name"),
    Flag("weight-version", default="default"),
    Flag("chat-template"),
    Flag("enable-cache-report", None, default=False),
    Flag("reasoning-parser"),
    Flag("tool-call-parser"),
    Flag("sampling-defaults", default="model", choices=("model", "openai")),
    Flag("preferred-sampling-params", _json),
    Flag("stream-interval", int, 1),
    Flag("batch-notify-size", int, 16),
    Flag("stream-response-default-include-usage", None, default=False),
    Flag("incremental-streaming-output", None, default=False),
    Flag("tokenizer-worker-num", int, 1),
    # Memory and scheduling
    Flag("mem-fraction-static", float),
    Flag("max-running-requests", int),
    Flag("max-queued-requests", int),
    Flag("max-total-tokens", int),
    Flag("chunked-prefill-size", int),
    Flag("max-prefill-tokens", int, 16384),
    Flag("schedule-policy", default="fcfs", choices=("fcfs", "lpm", "random", "dfs-weight")),
    Flag("schedule-conservativeness", float, 1.0),
    Flag("page-size", int),
    Flag("disable-radix-cache", None, default=False),
    Flag("disable-overlap-schedule", None, default=False),
    Flag("enable-mixed-chunk", None, default=False),
    Flag("min-free-slots-delay", int),
    # Parallelism
    Flag("tp-size", int, 1, aliases=("tensor-parallel-size",)),
    Flag("pp-size", int, 1, aliases=("pipeline-parallel-size",)),
    Flag("pp-max-micro-batch-size", int),
    Flag("pp-async-batch-depth", int, 0),
    Flag("dp-size", int, 1, aliases=("data-parallel-size",)),
    Flag("attn-dp-size", int, 1, aliases=("attention-data-parallel-size",)),
    Flag("enable-dp-attention", None, default=False),
    Flag("enable-dp-lm-head", None, default=False),
    Flag("ep-size", int, 1, aliases=("expert-parallel-size", "ep")),
    Flag("moe-dp-size", int, 1),
    Flag("moe-dense-tp-size", int),
    Flag("attn-cp-size", int, 1),
    Flag("load-balance-method", default="auto"),
    Flag("nnodes", int, 1),
    Flag("node-rank", int, 0),
    Flag("dist-init-addr", aliases=("nccl-init-addr",)),
    Flag("nccl-port", int),
    Flag("dist-timeout", int),
    # Execution
    Flag("device", default="cuda"),
    Flag("base-gpu-id", int, 0),
    Flag("random-seed", int),
    Flag("watchdog-timeout", float, 300),
    Flag("soft-watchdog-timeout", float),
    Flag("attention-backend"),
    Flag("decode-attention-backend"),
    Flag("prefill-attention-backend"),
    Flag("sampling-backend"),
    Flag("grammar-backend"),
    Flag("moe-runner-backend", default="auto"),
    Flag("moe-a2a-backend", default="none"),
    Flag("disable-flashinfer-autotune", None, default=False),
    Flag("cuda-graph-config", _json),
    Flag("cuda-graph-backend-decode", choices=("full", "breakable", "disabled")),
    Flag("cuda-graph-backend-prefill", choices=("full", "breakable", "disabled", "tc_piecewise")),
    Flag("cuda-graph-max-bs-decode", int),
    Flag("cuda-graph-max-bs-prefill", int),
    Flag("cuda-graph-bs-decode", int, many=True),
    Flag("cuda-graph-bs-prefill", int, many=True),
    Flag("disable-decode-cuda-graph", None, default=False),
    Flag("disable-prefill-cuda-graph", None, default=False),
    Flag("disable-cuda-graph", None, default=False),
    Flag("disable-cuda-graph-padding", None, default=False),
    Flag("enable-torch-compile", None, default=False),
    Flag("disable-custom-all-reduce", None, default=False),
    Flag("enable-deterministic-inference", None, default=False),
    Flag("rl-on-policy-target"),
    # Observability
    Flag("log-level", default="info"),
    Flag("log-level-http"),
    Flag("log-requests", None, default=False),
    Flag("log-requests-level", int, 2),
    Flag("log-requests-format", default="text", choices=("text", "json")),
    Flag("uvicorn-access-log-exclude-prefixes", many=True, default=[]),
    Flag("crash-dump-folder"),
    Flag("enable-metrics", None, default=False),
    Flag("enable-metrics-for-all-schedulers", None, default=False),
    Flag("load-snapshot-publish-interval", int, 15),
    Flag("decode-log-interval", int, 40),
    # Speculation
    Flag("speculative-algorithm"),
    Flag("speculative-draft-model-path", aliases=("speculative-draft-model",)),
    Flag("speculative-draft-model-revision"),
    Flag("speculative-draft-load-format", help="dummy: a random draft"),
    Flag("speculative-num-steps", int),
    Flag("speculative-eagle-topk", int),
    Flag("speculative-num-draft-tokens", int),
    Flag("speculative-dflash-block-size", int),
    Flag("speculative-ddtree-budget", int, help="nodes of the DDTREE besides its root"),
    Flag("speculative-accept-threshold-single", float, 1.0),
    Flag("speculative-accept-threshold-acc", float, 1.0),
    Flag("speculative-use-rejection-sampling", None, default=False),
    Flag("speculative-use-block-verification", None, default=False),
    Flag("speculative-token-map"),
    Flag("speculative-attention-mode", default="prefill", choices=("prefill", "decode")),
    Flag("speculative-draft-attention-backend"),
    Flag("speculative-draft-kv-cache-dtype"),
    Flag("speculative-draft-window-size", int),
    Flag("speculative-draft-sink-size", int),
    Flag("speculative-draft-model-quantization"),
    Flag("speculative-moe-runner-backend"),
    Flag("speculative-moe-a2a-backend"),
    Flag("speculative-ngram-min-bfs-breadth", int, 1),
    Flag("speculative-ngram-max-bfs-breadth", int, 10),
    Flag("speculative-ngram-match-type", default="BFS", choices=("BFS", "PROB")),
    Flag("speculative-ngram-max-trie-depth", int, 18),
    Flag("speculative-ngram-capacity", int, 10_000_000),
)

INERT = frozenset(
    {
        "tokenizer_mode", "skip_tokenizer_init", "trust_remote_code", "revision", "warmups",
        "chat_template", "reasoning_parser", "tool_call_parser", "batch_notify_size",
        "tokenizer_worker_num", "schedule_policy", "enable_mixed_chunk", "min_free_slots_delay",
        "pp_max_micro_batch_size", "pp_async_batch_depth", "moe_dp_size", "moe_dense_tp_size",
        "attn_cp_size", "load_balance_method", "node_rank", "dist_init_addr", "nccl_port",
        "dist_timeout", "base_gpu_id", "watchdog_timeout", "soft_watchdog_timeout",
        "decode_attention_backend", "prefill_attention_backend", "moe_runner_backend",
        "moe_a2a_backend", "cuda_graph_config", "cuda_graph_backend_prefill",
        "cuda_graph_max_bs_prefill", "cuda_graph_bs_prefill", "disable_cuda_graph_padding",
        "enable_torch_compile", "disable_custom_all_reduce", "rl_on_policy_target",
        "log_requests", "log_requests_level", "log_requests_format", "crash_dump_folder",
        "dtype", "quantization", "kv_cache_dtype", "enable_metrics_for_all_schedulers",
        "load_snapshot_publish_interval", "speculative_token_map", "speculative_attention_mode",
        "speculative_draft_attention_backend", "speculative_draft_kv_cache_dtype",
        "speculative_draft_sink_size", "speculative_draft_model_quantization",
        "speculative_moe_runner_backend", "speculative_moe_a2a_backend",
        "speculative_ngram_min_bfs_breadth", "speculative_ngram_match_type",
        "speculative_ngram_max_trie_depth", "speculative_ngram_capacity",
    }
)  # fmt: skip
"""Fields that are accepted and shown but change nothing here; the log says so when one is set."""

OWN_FLAGS: tuple[Flag, ...] = (
    Flag("time-scale", float, 1.0, help="modelled time: 0 none, 1 real, 0.1 ten times faster"),
    Flag("gpu", default="b200", help="GPU of the clock: see docs/explanation/clock.md"),
    Flag("clock-model", help="model size of the clock; default: guessed from --model-path"),
    Flag("noise-sd", float, 0.0, help="sd of the batch-shape dependent noise of the logits (nat)"),
    Flag("draft-quality", float, help="0: a useless draft, 1: as good as the drafter gets"),
    Flag("fault", append=True, help="break this on purpose; repeatable; 'list' names all"),
    Flag("without", default="", help="abilities to lack: 'list' names all"),
    Flag("fail-load", help="die in this phase of the load: 'list' names all"),
    Flag("hang-load", help="hang in this phase of the load"),
    Flag("load-seconds", float, 1.0, help="length of the whole load"),
    Flag("phase-seconds", append=True, help="PHASE=SECONDS: length of one phase of the load"),
)


class Parser(argparse.ArgumentParser):
    """argparse with SGLang's habits: prefixes are understood, the unknown ends with status 2."""

    def add(self, flag: Flag) -> None:
        """Declare one flag under its long name and aliases."""
        names = [f"--{name}" for name in (flag.name, *flag.aliases)]
        options: dict[str, Any] = {"dest": flag.field, "default": flag.default, "help": flag.help}
        if flag.kind is None:
            self.add_argument(*names, action="store_true", **options)
            return
        if flag.many:
            options["nargs"] = "*"
        if flag.append:
            options |= {"action": "append", "default": []}
        self.add_argument(*names, type=flag.kind, choices=flag.choices or None, **options)


def inert_flags(given: dict[str, Any]) -> list[str]:
    """Return the flags that were set away from their defaults although they change nothing."""
    return [
        f"--{flag.name}"
        for flag in SGLANG_FLAGS
        if flag.field in INERT and given[flag.field] != flag.default
    ]


def parser() -> Parser:
    """Every flag of both tables."""
    arguments = Parser(
        prog="specbench-engine",
        description="The embedded reference engine, under the launch flags of SGLang 0.5.23.",
    )
    for flag in (*SGLANG_FLAGS, *OWN_FLAGS):
        arguments.add(flag)
    return arguments
