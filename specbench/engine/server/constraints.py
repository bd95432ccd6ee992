"""Resolve launch arguments as SGLang 0.5.23 does: forced values, silent caps and refusals.

The rules are those of its speculative argument hook: each algorithm rewrites steps, topk and the
verify width, a speculative server without `--max-running-requests` is capped at 48, and what cannot
run is refused with a ValueError. DDTREE follows the open upstream change 29907.
"""

import secrets
from typing import Any

Args = dict[str, Any]
Warnings = list[str]

SPEC_RUNNING_REQUESTS = 48
DEFAULT_RUNNING_REQUESTS = 4096
DEFAULT_BLOCK = 16
DDTREE_TOPK = 4
ALGORITHMS = ("EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH", "DDTREE")
KNOWN_ELSEWHERE = ("UNO", "DSPARK", "FROZEN_KV_MTP")


def resolve(given: Args) -> tuple[Args, Warnings]:
    """Return the arguments as /server_info shows them, and the warnings of the resolution.

    Raises ValueError with SGLang's message for a combination that cannot run.
    """
    args, warnings = dict(given), Warnings()
    args["served_model_name"] = args["served_model_name"] or args["model_path"]
    if ":" in args["served_model_name"]:
        raise ValueError("served_model_name cannot contain a colon (':') character.")
    args["tokenizer_path"] = args["tokenizer_path"] or args["model_path"]
    args["random_seed"] = _seed(args["random_seed"])
    _resolve_parallel(args)
    _resolve_execution(args, warnings)
    _resolve_speculation(args, warnings)
    _resolve_memory(args)
    return args, warnings


def _seed(given: int | None) -> int:
    return secrets.randbelow(1 << 30) if given is None else given


def _resolve_parallel(args: Args) -> None:
    for name in ("tp_size", "pp_size", "dp_size", "ep_size", "attn_dp_size", "nnodes"):
        if args[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {args[name]}.")
    if args["enable_dp_attention"] and args["dp_size"] > 1:
        args["attn_dp_size"], args["dp_size"] = args["dp_size"], 1
    args["enable_dp_attention"] = args["attn_dp_size"] > 1
    if args["attn_dp_size"] > 1 and args["tp_size"] % args["attn_dp_size"]:
        raise ValueError("tp_size must be divisible by attn_dp_size.")
    if args["ep_size"] > 1 and args["tp_size"] % args["ep_size"]:
        raise ValueError("tp_size must be divisible by ep_size.")


def _resolve_execution(args: Args, warnings: Warnings) -> None:
    if args["disable_cuda_graph"]:
        warnings.append("--disable-cuda-graph is deprecated; use --disable-decode-cuda-graph.")
        args["disable_decode_cuda_graph"] = args["disable_prefill_cuda_graph"] = True
    args["attention_backend"] = args["attention_backend"] or "fa3"
    args["sampling_backend"] = args["sampling_backend"] or "flashinfer"
    args["grammar_backend"] = args["grammar_backend"] or "xgrammar"
    if args["enable_deterministic_inference"]:
        if args["sampling_backend"] != "pytorch":
            warnings.append("Sampling backend is set to pytorch for deterministic inference.")
        args["sampling_backend"] = "pytorch"


def _resolve_speculation(args: Args, warnings: Warnings) -> None:
    if args["speculative_algorithm"] is None:
        return
    name = args["speculative_algorithm"].upper()
    if name == "NEXTN":
        name = "EAGLE"
    if name in KNOWN_ELSEWHERE:
        raise ValueError(f"{name} speculative decoding is not part of this engine.")
    if name not in ALGORITHMS:
        raise ValueError(f"Unknown speculative algorithm name: {name}")
    args["speculative_algorithm"] = name
    _check_thresholds(args)
    match name:
        case "EAGLE" | "EAGLE3" | "STANDALONE":
            _resolve_eagle(args, warnings)
        case "NGRAM":
            _resolve_ngram(args)
        case "DFLASH":
            _resolve_dflash(args, warnings)
        case _:
            _resolve_ddtree(args, warnings)
    _check_pipeline(args)
    if args["max_running_requests"] is None:
        args["max_running_requests"] = SPEC_RUNNING_REQUESTS
        warnings.append("Max running requests is reset to 48 for speculative decoding.")


def _check_thresholds(args: Args) -> None:
    for kind in ("single", "acc"):
        value = args[f"speculative_accept_threshold_{kind}"]
        if not 0 <= value <= 1:
            raise ValueError(f"speculative_accept_threshold_{kind} must lie in [0, 1].")


def _check_pipeline(args: Args) -> None:
    if args["pp_size"] == 1:
        return
    name = args["speculative_algorithm"]
    if name in {"DFLASH", "DDTREE"}:
        raise ValueError(f"Currently {name} speculative decoding only supports pp_size == 1.")
    if name not in {"EAGLE", "EAGLE3"} or not args["disable_overlap_schedule"]:
        raise ValueError(
            "Pipeline parallelism with speculative decoding needs EAGLE and "
            "--disable-overlap-schedule."
        )


def _resolve_eagle(args: Args, warnings: Warnings) -> None:
    steps, topk, width = (
        args[f"speculative_{key}"] for key in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    if steps is None:
        if topk is not None or width is not None:
            raise ValueError(
                "speculative_eagle_topk and speculative_num_draft_tokens must be unset "
                "when speculative_num_steps is unset."
            )
        steps, topk, width = (5, 4, 8) if _is_llama(args) else (3, 1, 4)
    topk = 1 if topk is None else topk
    if topk == 1:
        if width not in {None, steps + 1}:
            warnings.append(
                "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 "
                "when speculative_eagle_topk == 1"
            )
        width = steps + 1
    width = steps * topk + 1 if width is None else width
    if min(steps, topk, width) < 1:
        raise ValueError("speculative_num_steps, eagle_topk and num_draft_tokens must be >= 1.")
    if topk > 1 and (args["page_size"] or 1) > 1:
        raise ValueError("speculative_eagle_topk > 1 with page_size > 1 is not supported.")
    if args["speculative_use_rejection_sampling"] and topk != 1:
        raise ValueError("speculative_use_rejection_sampling needs speculative_eagle_topk == 1.")
    if args["speculative_algorithm"] == "STANDALONE" and args["attn_dp_size"] > 1:
        raise ValueError("STANDALONE speculative decoding does not support dp attention.")
    _set_widths(args, steps, topk, width)


def _is_llama(args: Args) -> bool:
    return (
        args["speculative_algorithm"] != "STANDALONE" and "llama" in str(args["model_path"]).lower()
    )


def _resolve_ngram(args: Args) -> None:
    if args["attn_dp_size"] > 1:
        raise ValueError("Currently ngram speculative decoding does not support dp attention.")
    width = args["speculative_num_draft_tokens"]
    width = 12 if width is None else width
    topk = args["speculative_ngram_max_bfs_breadth"]
    args["enable_mixed_chunk"] = False
    _set_widths(args, width // topk, topk, width)


def _force_single(args: Args, warnings: Warnings, key: str) -> None:
    name = args["speculative_algorithm"]
    if args[f"speculative_{key}"] not in {None, 1}:
        warnings.append(f"speculative_{key} is forced to 1 for {name}.")


def _resolve_dflash(args: Args, warnings: Warnings) -> None:
    _check_block_drafter(args)
    _force_single(args, warnings, "num_steps")
    _force_single(args, warnings, "eagle_topk")
    block, width = args["speculative_dflash_block_size"], args["speculative_num_draft_tokens"]
    if block is not None and width is not None and block != width:
        raise ValueError(
            "speculative_num_draft_tokens and speculative_dflash_block_size differ: "
            f"{width} and {block}."
        )
    block = block or width or DEFAULT_BLOCK
    if block < 2:
        raise ValueError("The DFLASH block size must be at least 2.")
    args["speculative_dflash_block_size"] = block
    _set_widths(args, 1, 1, block)


def _resolve_ddtree(args: Args, warnings: Warnings) -> None:
    """Budget nodes besides the root: verify width budget + 1; no overlap, no paging."""
    _check_block_drafter(args)
    _force_single(args, warnings, "num_steps")
    if (args["page_size"] or 1) != 1:
        raise ValueError("DDTREE speculative decoding requires page_size == 1.")
    if args["speculative_use_rejection_sampling"]:
        raise ValueError("DDTREE speculative decoding does not support rejection sampling.")
    block = args["speculative_dflash_block_size"] or DEFAULT_BLOCK
    budget, width = args["speculative_ddtree_budget"], args["speculative_num_draft_tokens"]
    if budget is None:
        budget = block - 1 if width is None else width - 1
    if budget < 1 or block < 2:
        raise ValueError("speculative_ddtree_budget must be at least 1 and the block at least 2.")
    if width not in {None, budget + 1}:
        raise ValueError(
            f"speculative_num_draft_tokens must be speculative_ddtree_budget + 1, got {width}."
        )
    topk = args["speculative_eagle_topk"] or min(budget, DDTREE_TOPK)
    if not args["disable_overlap_schedule"]:
        warnings.append("Overlap schedule is disabled for DDTREE.")
        args["disable_overlap_schedule"] = True
    args["speculative_dflash_block_size"], args["speculative_ddtree_budget"] = block, budget
    _set_widths(args, 1, topk, budget + 1)


def _check_block_drafter(args: Args) -> None:
    name = args["speculative_algorithm"]
    if args["device"] not in {"cuda", "npu", "xpu"}:
        raise ValueError(f"{name} speculative decoding is not supported on {args['device']!r}.")
    if args["attn_dp_size"] > 1 and not args["enable_dp_lm_head"]:
        raise ValueError(f"{name} with attention data parallelism needs --enable-dp-lm-head.")
    window, block = args["speculative_draft_window_size"], args["speculative_dflash_block_size"]
    if window is not None and window < (block or DEFAULT_BLOCK):
        raise ValueError("speculative_draft_window_size must not be below the block size.")


def _set_widths(args: Args, steps: int, topk: int, width: int) -> None:
    args["speculative_num_steps"] = steps
    args["speculative_eagle_topk"] = topk
    args["speculative_num_draft_tokens"] = width


def _resolve_memory(args: Args) -> None:
    if args["mem_fraction_static"] is None:
        args["mem_fraction_static"] = 0.85
    if not 0 < args["mem_fraction_static"] < 1:
        raise ValueError("mem_fraction_static must lie between 0 and 1.")
    args["page_size"] = args["page_size"] or 1
    args["chunked_prefill_size"] = args["chunked_prefill_size"] or 8192
    for name in ("max_running_requests", "max_total_tokens", "context_length"):
        if args[name] is not None and args[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {args[name]}.")


def effective_running_requests(args: Args) -> int:
    """Return how many requests may run at once on one data-parallel rank."""
    total = args["max_running_requests"] or DEFAULT_RUNNING_REQUESTS
    return max(1, int(total) // int(args["dp_size"]))
