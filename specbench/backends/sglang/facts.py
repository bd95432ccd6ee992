"""What SGLang says of itself, as typed facts (0.4.6 to 0.5.23)."""

from collections.abc import Mapping
from typing import Any

from specbench.backends.sglang import identity
from specbench.model.facts import ServerFacts

_SHOWN = (
    *("version", "model_path", "tokenizer_path", "dtype", "quantization", "kv_cache_dtype"),
    *("device", "attention_backend", "sampling_backend", "random_seed", "tp_size"),
    *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk"),
    *("speculative_num_draft_tokens", "page_size", "disable_radix_cache"),
    *("disable_overlap_schedule", "enable_deterministic_inference"),
)
_SIZES = {"tp": "tp_size", "pp": "pp_size", "dp": "dp_size", "ep": "ep_size"}


def facts(info: Mapping[str, Any], model: Mapping[str, Any]) -> ServerFacts:
    """Read /server_info and /model_info."""
    algorithm = identity.algorithm_name(info.get("speculative_algorithm"))
    context = info.get("context_length") or info.get("max_req_input_len")
    states = identity.states(info)
    said = states[0].get("avg_spec_accept_length") if states else None
    said_by_engine = info.get("specbench_engine")
    engine = said_by_engine if isinstance(said_by_engine, Mapping) else {}
    names = ("startup_time", "random_seed", "launch_command")
    return ServerFacts(
        product="sglang",
        version=_text(info.get("version")),
        model=_text(info.get("model_path") or model.get("model_path")),
        served_name=_text(info.get("served_model_name") or model.get("served_model_name")),
        speculative=algorithm is not None if info else None,
        algorithm=algorithm,
        draft_tokens=_number(info.get("speculative_num_draft_tokens")),
        draft_depth=_number(info.get("speculative_num_steps")),
        tree_width=_number(info.get("speculative_eagle_topk")),
        drafter=_text(info.get("speculative_draft_model_path")),
        thresholds=(
            _figure(info.get("speculative_accept_threshold_single")),
            _figure(info.get("speculative_accept_threshold_acc")),
        ),
        running_cap=identity.running_requests_limit(info),
        sizes={name: info[key] for name, key in _SIZES.items() if isinstance(info.get(key), int)},
        attention_dp=_switch(info.get("enable_dp_attention")),
        graphs=_opposite(info.get("disable_cuda_graph", info.get("disable_decode_cuda_graph"))),
        overlap=_opposite(info.get("disable_overlap_schedule")),
        prefix_cache=_opposite(info.get("disable_radix_cache")),
        simulated="; ".join(
            finding.explanation
            for finding in identity.exposed_contamination(info)
            if finding.flag == "simulated_acceptance"
        ),
        reference_engine=isinstance(said_by_engine, Mapping),
        modelled_gpu=str(engine.get("gpu") or ""),
        faults=tuple(map(str, engine.get("faults") or ())),
        process_identity="|".join(str(info.get(name)) for name in names) if info else "",
        accept_len=_figure(said),
        context=_number(context),
        vocab=_number(info.get("vocab_size")),
        steps_a_log_line=_number(info.get("decode_log_interval")),
        device=str(info.get("device") or ""),
        shown={key: info[key] for key in _SHOWN if key in info},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _figure(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _opposite(value: object) -> bool | None:
    return not value if isinstance(value, bool) else None
