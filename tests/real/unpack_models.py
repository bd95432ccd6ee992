"""Unpack the tiny models, and write the EAGLE head once more in the form that vLLM reads.

    python unpack_models.py FOLDER

`target` is a Llama of 1.05 million parameters trained on the documentation and the source of
Python's standard library, `draft` a smaller one on the same text, `eagle` an EAGLE head of the
target. vLLM knows a head's bias not, and names its architecture otherwise.
"""

import json
import sys
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parent / "tiny-models.tar.xz"


def without_weight(raw: bytes, lost: str) -> bytes:
    """A safetensors file less one of its weights.

    The file is the length of its header (8 bytes), the header in JSON, and the weights; the header
    tells where each begins and ends.
    """
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    first, last = header.pop(lost)["data_offsets"]
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0] >= last:
            entry["data_offsets"] = [place - (last - first) for place in entry["data_offsets"]]
    # Readers expect weights at a multiple of eight bytes.
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = raw[start : start + first] + raw[start + last :]
    return len(text).to_bytes(8, "little") + text + data


def main(folder: Path) -> None:
    """Unpack into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    head, other = folder / "eagle", folder / "eagle_vllm"
    other.mkdir(exist_ok=True)
    weights = (head / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(without_weight(weights, "fc.bias"))
    config = json.loads((head / "config.json").read_text("utf-8"))
    config["architectures"] = ["LlamaForCausalLM"]
    (other / "config.json").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
