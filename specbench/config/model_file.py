"""config.json of a model: what its size is, so that a plan can tell hours and memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import InputError
from specbench.model.bill import ModelFacts
from specbench.model.json_text import NOT_JSON, why_not

INDEX = "model.safetensors.index.json"


def read_model(model: str, config: Path | None = None) -> ModelFacts | None:
    """Read the size of a model from `config`, or from its folder where this machine has it.

    None where neither is there. Raises InputError for a `config` that cannot be used.
    """
    path = config or Path(model, "config.json")
    try:
        found = _mapping(path)
    except (OSError, *NOT_JSON) as error:
        if config is None:
            return None
        why = error.strerror if isinstance(error, OSError) else why_not(error)
        raise InputError(f"cannot read the model's config: {why}", where=str(path)) from None
    facts = facts_of(found, _weights(path.parent))
    if facts is None and config is not None:
        raise InputError(
            "not the config.json of a language model: it says no hidden_size, num_hidden_layers or"
            " num_attention_heads",
            where=str(path),
        )
    return facts


def _mapping(path: Path) -> dict[str, Any]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])


def _weights(folder: Path) -> float | None:
    """Return the bytes of the weights as the index beside a config says; None without one."""
    try:
        size = _mapping(folder / INDEX)["metadata"]["total_size"]
    except (OSError, KeyError, TypeError, *NOT_JSON):
        return None
    return float(size) if isinstance(size, int | float) else None


def facts_of(config: Mapping[str, object], weight_bytes: float | None) -> ModelFacts | None:
    """Read a config.json in the shape of `transformers`; None where it lacks what is needed.

    Counts the matrices of attention and of the feed-forward layers (gated: three of them), with the
    experts that one token takes, and the embeddings; norms and routers are left out.
    """
    nested = config.get("text_config")
    given = {**config, **nested} if isinstance(nested, dict) else dict(config)

    def number(*names: str) -> float:
        found = (given.get(name) for name in names)
        return next((float(n) for n in found if isinstance(n, int | float)), 0.0)

    hidden, layers = number("hidden_size"), number("num_hidden_layers")
    heads = number("num_attention_heads")
    if not (hidden and layers and heads):
        return None
    kv_heads = number("num_key_value_heads") or heads
    head = number("head_dim", "v_head_dim") or hidden / heads
    attention = hidden * head * (2 * heads + 2 * kv_heads)
    dense, first = number("intermediate_size"), number("first_k_dense_replace")
    experts = number("n_routed_experts", "num_experts", "num_local_experts")
    taken, shared = number("num_experts_per_tok"), number("n_shared_experts")
    expert = number("moe_intermediate_size") or dense
    thick = first if experts else layers
    plain = layers * attention + thick * 3 * hidden * dense
    plain += 2 * number("vocab_size") * hidden
    per_expert = (layers - thick) * 3 * hidden * expert if experts else 0.0
    total, active = plain + per_expert * (experts + shared), plain + per_expert * (taken + shared)
    size = weight_bytes or total * _bytes_of_one(given)
    latent = number("kv_lora_rank")
    row = latent + number("qk_rope_head_dim") if latent else 2 * kv_heads * head
    return ModelFacts(
        weight_bytes=size, active_bytes=size * active / total, kv_bytes=2 * layers * row
    )


def _bytes_of_one(given: Mapping[str, object]) -> float:
    """Return the bytes of one weight: by the quantisation, else by the type."""
    quantised = given.get("quantization_config")
    if isinstance(quantised, dict):
        bits = quantised.get("bits")
        if isinstance(bits, int):
            return bits / 8
        return 1.0 if "fp8" in str(quantised.get("quant_method")) else 0.5
    return 4.0 if "32" in str(given.get("torch_dtype") or given.get("dtype")) else 2.0
