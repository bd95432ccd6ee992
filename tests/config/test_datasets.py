"""Laws of datasets: what is read, what is refused, and an order that all arms share."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.config import (
    choose_prompts,
    load_dataset,
    parse_matrix,
    read_datasets,
    shuffle_prompts,
)
from specbench.config.datasets import builtin_categories
from specbench.errors import InputError
from specbench.model.load import Prompt

MATRIX = """\
name: m
model: {path: p, served_name: s}
factors: {algorithm: ar, dataset: [%s]}
"""


def written(folder: Path, content: str | bytes) -> str:
    path = folder / "data.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path.name


def test_the_mixture_is_all_categories() -> None:
    mixed = load_dataset("builtin:mixed")

    parts = [load_dataset(f"builtin:{name}") for name in builtin_categories()]

    assert len(mixed.prompts) == sum(len(part.prompts) for part in parts) >= 96
    assert len({dataset.sha256 for dataset in (mixed, *parts)}) == len(parts) + 1


def test_an_unknown_category_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="'code'"):
        load_dataset("builtin:codes")


def test_each_kind_of_line_is_read(tmp_path: Path) -> None:
    lines = [
        {"prompt": "a"},
        {"text": "b", "category": "raw", "prompt_id": "x"},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "c"}]},
        {"input_ids": [1, 2], "max_tokens": 5, "mine": {"any": "thing"}},
    ]

    name = written(tmp_path, "\n".join(map(json.dumps, lines)) + "\n\n")

    prompts = load_dataset(name, tmp_path).prompts
    assert prompts[0].messages == ({"role": "user", "content": "a"},)
    assert (prompts[1].text, prompts[1].category, prompts[1].prompt_id) == ("b", "raw", "x")
    assert len(prompts[2].messages) == 2
    assert (prompts[3].input_ids, prompts[3].max_tokens) == ((1, 2), 5)
    assert len({prompt.prompt_id for prompt in prompts}) == 4


def test_a_share_gpt_conversation_is_asked_up_to_its_last_question(tmp_path: Path) -> None:
    turns = [("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    entry = {"id": "q", "conversations": [{"from": who, "value": text} for who, text in turns]}

    name = written(tmp_path, json.dumps([entry]))

    prompt = load_dataset(name, tmp_path).prompts[0]
    assert [message["content"] for message in prompt.messages] == ["a", "b", "c"]
    assert prompt.prompt_id == "q"


def test_the_hash_is_of_the_content_and_not_of_the_formatting(tmp_path: Path) -> None:
    first = load_dataset(written(tmp_path, '{"prompt": "a", "prompt_id": "1"}'), tmp_path)
    second = load_dataset(written(tmp_path, '{"prompt_id":"1","prompt":"a"}\r\n\n'), tmp_path)
    third = load_dataset(written(tmp_path, '{"prompt_id":"1","prompt":"b"}'), tmp_path)

    assert first.sha256 == second.sha256 != third.sha256


@pytest.mark.parametrize(
    ("content", "where", "words"),
    [
        ("", "", "no prompts"),
        ('{"prompt": "a"}\n{"prompt": \n', ":2:12", "not JSON"),
        ('{"prompt": "a"}\n{"prompt": 3}\n', ":2", "str"),
        ('{"prompt": "a", "text": "b"}', ":1", "prompt and text"),
        ('{"prompt": ""}\n3', ":2", "object"),
        ('{"nothing": 1}', ":1", "none of them"),
        ('{"text": ""}', ":1", "empty"),
        ('{"input_ids": [-1]}', ":1", "token id"),
        ('{"input_ids": [1], "max_tokens": 0}', ":1", "max_tokens"),
        ('{"messages": [{"role": "robot", "content": "a"}]}', ":1", "role"),
        ('{"messages": [{"role": "user", "content": ["a"]}]}', ":1", "str"),
        ('{"prompt": "a", "prompt_id": "1"}\n{"prompt": "a", "prompt_id": "1"}', ":2", "line 1"),
        (b'{"prompt": "a\xff"}', ":1:14", "UTF-8"),
        ('{"prompt": "\\ud800"}', ":1", "surrogate"),
        ("[" * 100_000, "", "not JSON"),
        ('[{"conversations": [{"from": "gpt", "value": "a"}]}]', "entry 1", "no question"),
        ('[{"conversations": [{"from": "human"}]}]', "entry 1", "value"),
        ('[{"conversations": 3}]', "entry 1", "list"),
        ("[3]", "entry 1", "object"),
        ("[", ":1:2", "not JSON"),
        ('{"prompt": "a", "max_tokens": ' + "9" * 5000 + "}", ":1", "JSON"),
    ],
)
def test_what_is_refused_and_where(
    tmp_path: Path, content: str | bytes, where: str, words: str
) -> None:
    name = written(tmp_path, content)

    with pytest.raises(InputError) as caught:
        load_dataset(name, tmp_path)

    assert f"data.jsonl{where if where.startswith(':') else ''}" in str(caught.value)
    assert where in str(caught.value)
    assert words in str(caught.value)


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such dataset"):
        load_dataset("none.jsonl", tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset(".", tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset("a\0b", tmp_path)


def test_a_matrix_loads_the_datasets_that_it_names(tmp_path: Path) -> None:
    written(tmp_path, '{"prompt": "a"}')
    path = str(tmp_path / "m.yaml")

    datasets = read_datasets(parse_matrix(MATRIX % "builtin:short, data.jsonl", path))

    assert set(datasets) == {"builtin:short", "data.jsonl"}
    with pytest.raises(InputError, match=r"m\.yaml:3:26"):
        read_datasets(parse_matrix(MATRIX % "'builtin:shirt'", path))


@given(st.integers(0, 2**53), st.integers(1, 30))
def test_a_seed_means_one_order_of_the_same_prompts(seed: int, count: int) -> None:
    prompts = [Prompt(prompt_id=str(index)) for index in range(count)]

    order = shuffle_prompts(prompts, seed)

    assert order == shuffle_prompts(tuple(prompts), seed)
    assert sorted(order, key=lambda p: int(p.prompt_id)) == prompts


def test_different_seeds_mean_different_orders() -> None:
    prompts = load_dataset("builtin:mixed").prompts

    orders = {tuple(p.prompt_id for p in shuffle_prompts(prompts, seed)) for seed in range(20)}

    assert len(orders) == 20


@given(st.integers(1, 40), st.integers(1, 200), st.integers(0, 2**53), st.integers(0, 2**53))
def test_a_workload_is_one_set_of_prompts_asked_in_whole_passes(
    held: int, requests: int, seed: int, trial: int
) -> None:
    prompts = [Prompt(prompt_id=str(index)) for index in range(held)]

    asked = choose_prompts(prompts, requests, seed)

    assert set(asked.in_order(trial)) == set(asked.prompts)
    assert {*asked.prompts, *asked.warmup} == set(prompts)
    assert len(asked.prompts) + len(asked.warmup) == held
    assert asked.requests is not None
    assert asked.requests % len(asked.prompts) == 0
    assert requests <= asked.requests < requests + len(asked.prompts)


@given(st.integers(1, 39), st.integers(0, 2**53))
def test_more_requests_ask_the_same_prompts_and_more(requests: int, seed: int) -> None:
    prompts = [Prompt(prompt_id=str(index)) for index in range(40)]

    fewer, more = (choose_prompts(prompts, count, seed) for count in (requests, requests + 1))

    assert set(fewer.prompts) < set(more.prompts)


@given(st.binary(max_size=60))
def test_any_bytes_are_prompts_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()

    try:
        dataset = load_dataset(written(folder, raw), folder)
    except InputError:
        return
    assert msgspec.json.encode(dataset)
