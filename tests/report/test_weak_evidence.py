"""Each kind of claim is made on sound evidence, and not made when just that evidence is weak."""

from collections.abc import Callable
from typing import Any

import pytest

from specbench.report.findings import compose
from specbench.report.inputs import Evidence
from tests.report.synthetic import clean, grid, interleaved, verdict

Rows = list[dict[str, Any]]
Make = Callable[[], Evidence]


def _run(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Evidence:
    rows = interleaved(grid(algorithms=("ar", "dflash"), temperatures=(0.0,)))
    return clean([row | change(row) for row in rows])


def _launched_often(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Evidence:
    rows = grid(algorithms=("ar", "dflash"), temperatures=(0.0,), launches=8)
    return clean([row | change(row) for row in rows])


def _as_it_is(_: dict[str, Any]) -> dict[str, Any]:
    return {}


def _saturated(row: dict[str, Any]) -> dict[str, Any]:
    return {"flags": "client_saturated"} if row["concurrency"] == 64 else {}


def _equal(row: dict[str, Any]) -> dict[str, Any]:
    return {"tok_s": 100.0 * (1 + 0.0005 * (row["replicate"] % 3))}


def _equal_but_noisy(row: dict[str, Any]) -> dict[str, Any]:
    slow = (row["replicate"] + (row["algorithm"] == "ar")) % 2
    return {"tok_s": 100.0 * (0.8 if slow else 1.25)}


def _ends(row: dict[str, Any]) -> dict[str, Any]:
    lost = row["algorithm"] == "dflash" and row["concurrency"] == 64
    return {"tok_s": row["tok_s"] / 4} if lost else {}


def _one_prompt() -> Evidence:
    evidence = clean()
    requests = evidence.requests.assign(prompt_id="p0")
    return clean(requests=requests)


CLAIMS: dict[str, tuple[str, Make, Make]] = {
    "a speed-up in the headline": (
        "Faster than `ar` in 3 of 3",
        lambda: _run(_as_it_is),
        lambda: _run(_saturated),
    ),
    "a speed-up": (
        "concurrency 64 is faster than `ar`",
        lambda: _run(_as_it_is),
        lambda: _run(_saturated),
    ),
    "equal speed": (
        "as fast as `ar`",
        lambda: _launched_often(_equal),
        lambda: _launched_often(_equal_but_noisy),
    ),
    "faster at every load": (
        "faster at all 3 measured levels",
        lambda: _run(_as_it_is),
        lambda: _run(_saturated),
    ),
    "the end of an advantage": (
        "the advantage ends between concurrency 8",
        lambda: _run(_ends),
        lambda: _run(lambda row: _ends(row) | _saturated(row)),
    ),
    "what a speed-up is made of": (
        "concurrency 64: accept_len 3.10\N{MULTIPLICATION SIGN} of the control's",
        lambda: _run(_as_it_is),
        lambda: _run(_saturated),
    ),
    "acceptance": ("95 % interval", clean, _one_prompt),
    "losslessness": (
        "Lossless within the stated resolution",
        lambda: clean(verdicts=[verdict("dflash")]),
        lambda: clean(verdicts=[verdict("dflash", verdict="inconclusive")]),
    ),
    "a violation": (
        "Not lossless: dflash",
        lambda: clean(verdicts=[verdict("dflash", verdict="violated")]),
        lambda: clean(verdicts=[verdict("dflash", verdict="inconclusive")]),
    ),
}


def _claims(evidence: Evidence, kind: str) -> list[str]:
    sections = [s for s in compose(evidence).sections if kind != "acceptance" or s.anchor == kind]
    found = [one for section in sections for one in section.statements]
    return [one.text for one in found if one.kind in {"claim", "violated"}]


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_claim_is_made_on_sound_evidence_and_not_on_weak(kind: str) -> None:
    words, sound, weak = CLAIMS[kind]

    assert any(words in text for text in _claims(sound(), kind))
    assert not any(words in text for text in _claims(weak(), kind))
