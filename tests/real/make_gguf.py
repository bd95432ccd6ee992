"""Write a small Llama folder (config, safetensors, byte-level BPE) as one GGUF file for llama.cpp.

    python make_gguf.py MODEL_FOLDER OUT.gguf

Weights are written as float32, so that nothing of the bfloat16 original is lost. Needs `gguf`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

# Folder's name of a layer's weight -> GGUF's name.
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Weights of a safetensors file of bfloat16 values, as float32."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    weights = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {entry['dtype']}, only BF16 is understood")
        first, last = entry["data_offsets"]
        halves = np.frombuffer(raw[start + first : start + last], dtype="<u2")
        # A bfloat16 is the upper half of a float32.
        weights[name] = (halves.astype("<u4") << 16).view("<f4").reshape(entry["shape"])
    return weights


def gguf_name(name: str) -> str:
    """The GGUF name of a weight of the folder."""
    if name in OUTER:
        return OUTER[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER[rest.removesuffix('.weight')]}.weight"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection, from two halves a head to pairs of neighbours.

    The folder rotates value i with value i + half, llama.cpp rotates neighbours.
    """
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)


def write_sizes(out: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Sizes and constants of the network."""
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_key_length(config["head_dim"])
    out.add_value_length(config["head_dim"])
    out.add_rope_dimension_count(config["head_dim"])
    out.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_vocab_size(config["vocab_size"])
    out.add_file_type(gguf.LlamaFileType.ALL_F32)


def write_tokeniser(out: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    """Vocabulary, merges, special tokens and chat template."""
    tokeniser = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokeniser["model"]["vocab"]
    special = {entry["id"] for entry in tokeniser["added_tokens"]}
    kinds = [
        gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL
        for number in range(config["vocab_size"])
    ]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    out.add_token_types(kinds)
    out.add_token_merges(
        [m if isinstance(m, str) else " ".join(m) for m in tokeniser["model"]["merges"]]
    )
    out.add_bos_token_id(config["bos_token_id"])
    out.add_eos_token_id(config["eos_token_id"])
    out.add_pad_token_id(config["pad_token_id"])
    out.add_add_bos_token(value=False)
    out.add_chat_template((folder / "chat_template.jinja").read_text("utf-8"))


def main(folder: Path, target: Path) -> None:
    """Convert the model of `folder` into the file `target`."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    heads = {
        "q_proj": config["num_attention_heads"],
        "k_proj": config["num_key_value_heads"],
    }
    out = gguf.GGUFWriter(target, "llama")
    out.add_name(folder.name)
    write_sizes(out, config)
    write_tokeniser(out, folder, config)
    for name, weight in read_weights(folder / "model.safetensors").items():
        count = next((count for part, count in heads.items() if part in name), None)
        out.add_tensor(gguf_name(name), weight if count is None else interleave(weight, count))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
