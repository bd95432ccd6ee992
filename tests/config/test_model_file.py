"""A model's config.json tells its bytes; what is no such file is refused in words."""

import json
from pathlib import Path

import pytest

from specbench.config import read_model
from specbench.errors import InputError

DENSE = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTURE = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "torch_dtype": "bfloat16",
}  # fmt: skip


def written(folder: Path, config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    return path


def test_a_dense_model_reads_all_its_weights_for_a_token(tmp_path: Path) -> None:
    facts = read_model("", written(tmp_path, DENSE))

    assert facts is not None
    assert facts.weight_bytes == pytest.approx(2 * 8.03e9, rel=0.01)
    assert facts.active_bytes == facts.weight_bytes
    assert facts.kv_bytes == 2 * 32 * 2 * 8 * 128


def test_a_mixture_reads_the_experts_of_a_token(tmp_path: Path) -> None:
    facts = read_model("", written(tmp_path, MIXTURE))

    assert facts is not None
    assert facts.weight_bytes == pytest.approx(2 * 46.7e9, rel=0.01)
    assert facts.active_bytes == pytest.approx(2 * 12.9e9, rel=0.01)


def test_the_index_beside_it_knows_the_bytes_better(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 123}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    written(tmp_path, DENSE)

    facts = read_model(str(tmp_path))

    assert facts is not None
    assert facts.weight_bytes == 123


def test_a_model_that_is_elsewhere_tells_nothing(tmp_path: Path) -> None:
    assert read_model(str(tmp_path / "none")) is None


@pytest.mark.parametrize("config", [{}, [], {"hidden_size": "x"}])
def test_another_file_is_refused(tmp_path: Path, config: object) -> None:
    path = written(tmp_path, config)

    with pytest.raises(InputError) as refused:
        read_model("", path)
    assert refused.value.where == str(path)
