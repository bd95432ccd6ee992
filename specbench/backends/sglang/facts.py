"""What SGLang says of itself, as typed facts (0.4.6 to 0.5.23)."""

from collections.abc import Mapping
from typing import Any

from specbench.backends import typed
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
    engine = typed.part(info, "specbench_engine")
    faults = engine.get("faults")
    eager = info.get("disable_cuda_graph", info.get("disable_decode_cuda_graph"))
    names = ("startup_time", "random_seed", "launch_command")
    return ServerFacts(
        product="sglang",
        version=typed.text(info.get("version")),
        model=typed.text(info.get("model_path") or model.get("model_path")),
        served_name=typed.text(info.get("served_model_name") or model.get("served_model_name")),
        speculative=algorithm is not None if info else None,
        algorithm=algorithm,
        draft_tokens=typed.number(info.get("speculative_num_draft_tokens")),
        draft_depth=typed.number(info.get("speculative_num_steps")),
        tree_width=typed.number(info.get("speculative_eagle_topk")),
        drafter=typed.text(info.get("speculative_draft_model_path")),
        thresholds=(
            typed.figure(info.get("speculative_accept_threshold_single")),
            typed.figure(info.get("speculative_accept_threshold_acc")),
        ),
        running_cap=typed.number(identity.running_requests_limit(info)),
        sizes=typed.sizes(info, _SIZES),
        attention_dp=typed.switch(info.get("enable_dp_attention")),
        graphs=typed.opposite(eager),
        overlap=typed.opposite(info.get("disable_overlap_schedule")),
        prefix_cache=typed.opposite(info.get("disable_radix_cache")),
        simulated="; ".join(
            finding.explanation
            for finding in identity.exposed_contamination(info)
            if finding.flag == "simulated_acceptance"
        ),
        reference_engine=isinstance(info.get("specbench_engine"), Mapping),
        modelled_gpu=str(engine.get("gpu") or ""),
        faults=tuple(map(str, faults)) if isinstance(faults, list | tuple) else (),
        process_identity="|".join(str(info.get(name)) for name in names) if info else "",
        accept_len=typed.figure(said),
        context=typed.number(context),
        vocab=typed.number(info.get("vocab_size")),
        steps_a_log_line=typed.number(info.get("decode_log_interval")),
        device=str(info.get("device") or ""),
        shown={key: info[key] for key in _SHOWN if key in info},
    )
