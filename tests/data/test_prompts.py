"""The shipped prompts are what their README says."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec

from specbench.model.load import Prompt

FOLDER = Path(__file__).parents[2] / "specbench" / "data" / "prompts"
PROMPTS = [
    msgspec.json.decode(line, type=Prompt)
    for line in (FOLDER / "mixed.jsonl").read_bytes().splitlines()
]


def _text(prompt: Prompt) -> str:
    return "\n".join(message["content"] for message in prompt.messages)


def test_there_are_enough_prompts_in_every_category_of_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in readme.splitlines() if line.startswith("| `")]
    stated = {row[1].strip(" `"): int(row[2]) for row in rows}

    assert Counter(prompt.category for prompt in PROMPTS) == stated
    assert len(PROMPTS) >= 96


def test_no_identifier_and_no_text_occurs_twice() -> None:
    assert len({prompt.prompt_id for prompt in PROMPTS}) == len(PROMPTS)
    assert len({_text(prompt) for prompt in PROMPTS}) == len(PROMPTS)


def test_every_conversation_alternates_and_ends_with_the_user() -> None:
    for prompt in PROMPTS:
        roles = [message["role"] for message in prompt.messages if message["role"] != "system"]

        assert roles[0] == roles[-1] == "user"
        assert all(before != after for before, after in pairwise(roles))
        assert all(message["content"] == message["content"].strip() for message in prompt.messages)


def test_long_contexts_are_long_and_begin_differently() -> None:
    long = [_text(prompt) for prompt in PROMPTS if prompt.category == "long"]

    assert min(len(text.split()) for text in long) >= 1500
    assert len({text[:200] for text in long}) == len(long)


def test_the_translations_use_several_scripts() -> None:
    letters = "".join(_text(prompt) for prompt in PROMPTS if prompt.category == "translation")

    for example in "请の글ह的عבΜПร":
        assert example in letters


def test_every_prefix_is_a_mixture() -> None:
    head = Counter(prompt.category for prompt in PROMPTS[:32])

    assert len(head) == len({prompt.category for prompt in PROMPTS})
    assert max(head.values()) <= 8


def test_each_line_is_plain_json_with_the_three_documented_keys() -> None:
    lines = (FOLDER / "mixed.jsonl").read_text(encoding="utf-8").splitlines()

    assert all(set(json.loads(line)) == {"prompt_id", "category", "messages"} for line in lines)
