"""A sentence says what the table beside it says, and nothing that its own interval denies."""

import re
from typing import Any

import pytest

from specbench.report.findings import compose
from specbench.report.inputs import Evidence
from specbench.report.statements import Section
from tests.report.synthetic import clean, grid, interleaved, trial

RATIO = r"(?P<ratio>[\d.]+\u00d7)"
INTERVAL = r"(?P<interval>\[(?P<low>[\d.]+), (?P<high>[\d.]+)\])"
N = r"\(n = (?P<trials>\d+) trials in (?P<launches>\d+) launch(?:es)?"
SPEED = re.compile(
    rf"(?P<cell>.+) is (?P<word>faster|slower) than `ar`: {RATIO} of its tok_s,"
    rf" 95 % interval {INTERVAL} {N}"
)
CLEAREST = re.compile(
    rf"(?P<word>Faster|Slower) than `ar` in (?P<count>\d+) of (?P<all>\d+) comparisons; the"
    rf" clearest is (?P<cell>.+): {RATIO}, 95 % interval {INTERVAL} {N}"
)
PARTS = re.compile(
    r"(?P<cell>.+): accept_len (?P<accept>[\d.]+\u00d7) of the control's, step time"
    r" (?P<step>[\d.]+\u00d7);"
    rf" their quotient is (?P<quotient>[\d.]+)\u00d7, and tok_s came to {RATIO} {INTERVAL}"
)
ACCEPTANCE = re.compile(
    rf"(?P<cell>.+): accept_len (?P<value>[\d.]+), 95 % interval {INTERVAL}"
    r" \(n = (?P<prompts>\d+) prompts, (?P<steps>[\d,]+) verify steps\)"
)
CAPACITY = re.compile(
    r"(?P<cell>.+): the highest mean throughput is (?P<value>[\d,.]+) tok/s, at concurrency"
    r" (?P<at>\d+) \(n = (?P<trials>\d+) trials?\)"
)

RECORDINGS = {
    "several launches": interleaved(grid()),
    "an arm that is slower": [
        trial(algorithm=name, launch=launch, replicate=n, wobble=0.002 * n, concurrency=load,
              **({} if name == "ar" else {"tok_s": 0.5 * load * 100.0}))
        for load in (1, 8) for name in ("ar", "dflash") for launch in range(3) for n in range(2)
    ],
}  # fmt: skip


@pytest.fixture(params=RECORDINGS)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return clean(RECORDINGS[request.param])


def section(evidence: Evidence, anchor: str) -> Section:
    (found,) = [one for one in compose(evidence).sections if one.anchor == anchor]
    return found


def said(part: Section, pattern: re.Pattern[str]) -> list[dict[str, str]]:
    return [
        found.groupdict() for one in part.statements if (found := pattern.match(one.text.strip()))
    ]


def by_cell(part: Section, head: str = "cell") -> dict[str, dict[str, Any]]:
    """The rows of the section's table of cells, the first one; others break cells down."""
    table = part.tables[0]
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    known = {row[head]: row for row in rows}
    assert len(known) == len(rows)
    return known


def test_a_sentence_of_speed_has_the_figures_of_its_row(evidence: Evidence) -> None:
    part = section(evidence, "speed")
    known = by_cell(part)

    found = said(part, SPEED)

    assert found
    for one in found:
        row = known[one["cell"]]
        assert (one["ratio"], one["interval"]) == (row["speed-up"], row["95 % interval"])
        assert (int(one["trials"]), int(one["launches"])) == (row["trials"], row["launches"])


def test_no_direction_is_said_that_its_interval_does_not_exclude(evidence: Evidence) -> None:
    claims = [*said(section(evidence, "speed"), SPEED),
              *said(section(evidence, "headline"), CLEAREST)]  # fmt: skip

    assert claims
    for one in claims:
        if one["word"].lower() == "faster":
            assert float(one["low"]) > 1.0, one
        else:
            assert float(one["high"]) < 1.0, one


def test_a_row_whose_interval_excludes_one_is_not_passed_over(evidence: Evidence) -> None:
    part = section(evidence, "speed")
    decided = {
        cell for cell, row in by_cell(part).items()
        if not row["remark"] and not _holds_one(row["95 % interval"])
    }  # fmt: skip

    assert decided == {one["cell"] for one in said(part, SPEED)}


def _holds_one(interval: str) -> bool:
    low, high = (float(end) for end in interval.strip("[]").split(", "))
    return low <= 1.0 <= high


def test_the_headline_counts_and_quotes_the_rows_of_the_table(evidence: Evidence) -> None:
    known = by_cell(section(evidence, "speed"))
    words = [one["word"] for one in said(section(evidence, "speed"), SPEED)]

    found = said(section(evidence, "headline"), CLEAREST)

    assert found
    for one in found:
        assert int(one["count"]) == words.count(one["word"].lower())
        assert int(one["all"]) == len(known)
        assert one["ratio"] == known[one["cell"]]["speed-up"]
        assert one["interval"] == known[one["cell"]]["95 % interval"]


def test_the_parts_of_a_speed_up_are_those_of_its_row_and_make_their_quotient(
    evidence: Evidence,
) -> None:
    known = by_cell(section(evidence, "speed"))

    found = said(section(evidence, "decomposition"), PARTS)

    assert found
    for one in found:
        row = known[one["cell"]]
        assert (one["accept"], one["step"]) == (row["accept_len"], row["step time"])
        assert (one["ratio"], one["interval"]) == (row["speed-up"], row["95 % interval"])
        quotient = float(one["accept"][:-1]) / float(one["step"][:-1])
        assert float(one["quotient"]) == pytest.approx(quotient, rel=0.012)


def test_a_sentence_of_acceptance_has_the_figures_of_its_row(evidence: Evidence) -> None:
    part = section(evidence, "acceptance")
    known = by_cell(part)

    found = said(part, ACCEPTANCE)

    assert found
    for one in found:
        row = known[one["cell"]]
        assert (one["value"], one["interval"]) == (row["accept_len"], row["95 % interval"])
        assert int(one["steps"].replace(",", "")) == row["verify steps"]
        assert int(one["prompts"]) == row["prompts"]
        assert float(one["low"]) <= float(one["value"]) <= float(one["high"])


def test_a_sentence_of_capacity_has_the_figures_of_its_row(evidence: Evidence) -> None:
    part = section(evidence, "capacity")
    known = by_cell(part, "server and request")

    found = said(part, CAPACITY)

    assert found
    for one in found:
        row = known[one["cell"]]
        assert (one["value"], one["at"]) == (row["highest mean tok/s"], row["at concurrency"])
        assert int(one["trials"]) == row["trials"]
