"""The language model: a chat model's entropy, a cache that heals, logits that read the cache."""

from pathlib import Path

import numpy as np
import pytest

from specbench.engine.decoder import Decoder
from specbench.engine.features import MEMORY
from specbench.engine.lm import LanguageModel, load_language
from specbench.engine.prefill import scored_rows
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import Sequence
from specbench.engine.weights import Weights, context_key, load_weights, save_weights
from tests.engine.runs import drive, requests


def sampled_rows(language: LanguageModel) -> np.ndarray:
    """Return the target's log-probabilities along texts sampled at temperature 1."""
    sequences = requests(language, 20, SamplingParams(max_new_tokens=64))
    drive(Decoder(language, seed=2), sequences)
    blocks = []
    for s in sequences:
        for _, logits, _ in scored_rows(language, s.ids, len(s.prompt_ids) - 1):
            scores = logits.astype(float)
            scores -= scores.max(axis=1, keepdims=True)
            blocks.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
    return np.concatenate(blocks)


def test_its_entropy_is_that_of_a_chat_model(language: LanguageModel) -> None:
    rows = sampled_rows(language)

    entropy = -(np.exp(rows) * rows).sum(axis=1)
    best_two = np.sort(rows, axis=1)[:, -2:]
    assert 0.5 < entropy.mean() < 1.2
    assert 0.25 < (np.exp(best_two[:, 1]) > 0.95).mean() < 0.7
    assert 0.005 < (best_two[:, 1] - best_two[:, 0] < 0.1).mean() < 0.08


def test_it_speaks_from_its_corpus(language: LanguageModel) -> None:
    sequences = requests(language, 20, SamplingParams(temperature=0.0, max_new_tokens=64))

    drive(Decoder(language), sequences)

    texts = {language.tokenizer.decode(s.output_ids) for s in sequences}
    assert len(texts) > 12
    assert sum("�" in text for text in texts) <= len(texts) // 4


def test_rows_are_the_same_bits_alone_and_in_any_batch(language: LanguageModel) -> None:
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, language.vocab_size, 67)
    context = generator.integers(-1, language.vocab_size, (67, 3))
    memory = generator.normal(0, 3, (67, MEMORY)).astype(np.float32)
    places = generator.integers(0, 5000, 67)

    together = language.logits(tokens, context, memory, places).copy()

    for row in range(67):
        one = slice(row, row + 1)
        alone = language.logits(tokens[one], context[one], memory[one], places[one])
        assert (alone[0] == together[row]).all()


@pytest.mark.parametrize("what", ["token", "memory", "position"])
def test_logits_depend_on_what_the_slots_hold(language: LanguageModel, what: str) -> None:
    ids = requests(language, 1, SamplingParams())[0].prompt_ids
    tokens, place = np.array(ids[-1:]), np.array([len(ids) - 1])
    context = np.array([ids[-2:-5:-1]])
    memory = np.zeros((1, MEMORY), dtype=np.float32)
    right = language.logits(tokens, context, memory, place).copy()

    changed = {
        "token": (context + 1, memory, place),
        "memory": (context, memory + 2, place),
        "position": (context, memory, place + 4),
    }[what]

    assert not np.array_equal(right, language.logits(tokens, *changed))


def test_a_damaged_cache_file_is_trained_again(
    language: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "specbench" / "engine" / f"{language.fingerprint}.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PK\x03\x04 not an archive")
    monkeypatch.setattr("specbench.engine.training.train", lambda _corpus: language.weights)

    again = load_language.__wrapped__()

    assert again.fingerprint == language.fingerprint
    assert load_weights(file) is not None


@pytest.mark.parametrize("damage", [b"", b"PK\x05\x06", b"\x93NUMPY", b"x" * 100])
def test_no_damage_of_the_cache_is_an_error(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "weights.npz"
    file.write_bytes(damage)

    assert load_weights(file) is None


def test_a_truncated_cache_is_not_read(language: LanguageModel, tmp_path: Path) -> None:
    file = tmp_path / "weights.npz"
    save_weights(language.weights, file)
    file.write_bytes(file.read_bytes()[:-5000])

    assert load_weights(file) is None


def test_a_cache_that_cannot_be_written_is_not_kept(
    language: LanguageModel, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")

    save_weights(language.weights, tmp_path / "file" / "weights.npz")

    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_weights_survive_the_cache(language: LanguageModel, tmp_path: Path) -> None:
    save_weights(language.weights, tmp_path / "weights.npz")

    loaded = load_weights(tmp_path / "weights.npz")

    assert isinstance(loaded, Weights)
    assert np.array_equal(loaded.projection, language.weights.projection)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.npz"]


def test_context_keys_are_different_for_nothing_and_for_unknown() -> None:
    keys = {context_key(shorter, token, 10) for shorter in range(3) for token in range(-1, 11)}

    assert len(keys) == 3 * 12


def test_an_empty_request_needs_one_prompt_token(language: LanguageModel) -> None:
    sequence = Sequence("one", [0], SamplingParams(temperature=0.0, max_new_tokens=4))

    drive(Decoder(language), [sequence])

    assert 1 <= len(sequence.output_ids) <= 4
