"""What replies look like: empty ones, loops, broken characters, and where two texts part."""

from collections.abc import Iterable

from specbench.model.load import RequestRecord

TAIL = 400
LEAST = 60
TIMES = 4
"""A loop is a unit that the end of a text repeats at least 4 times, over 60 characters or more."""


def text_flags(records: Iterable[RequestRecord]) -> dict[str, bool]:
    """Tell by flag whether measured replies of a trial carry it; loops show in kept texts only."""
    good = [one for one in records if one.phase == "measured" and one.status == "ok"]
    texts = [one.text for one in good if one.text]
    return {
        "empty_replies": any(one.text_bytes == 0 and not one.reasoning_tokens for one in good),
        "looping_text": any(map(loops, texts)),
        "replacement_characters": any("\N{REPLACEMENT CHARACTER}" in text for text in texts),
    }


def loops(text: str) -> bool:
    """Whether the end of a text only repeats itself."""
    tail = text[-TAIL:]
    return any(
        _repeated(tail, unit) >= max(LEAST, TIMES * unit)
        for unit in range(1, len(tail) // TIMES + 1)
    )


def _repeated(tail: str, unit: int) -> int:
    """Characters at the end that a unit of this length repeats."""
    same = 0
    for place in range(len(tail) - 1, unit - 1, -1):
        if tail[place] != tail[place - unit]:
            break
        same += 1
    return same + unit


def first_difference(a: str, b: str) -> int | None:
    """Give the place of the first character in which two texts differ; None where they are one."""
    if a == b:
        return None
    shared = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(shared) if x != y), min(len(a), len(b)))
