"""A pipeline is shown every trial and claim, what is wrong first, in a form that it can read."""

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.interchange.exports.checks import (
    MOST_LINES,
    Check,
    Outcome,
    checks_of,
    comment,
    junit,
)
from specbench.workflows.recording_open import open_recording

RECORDING = Path(__file__).parents[1] / "fixtures" / "recordings" / "schema-1-before-codes"
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "undecided")


def check(outcome: Outcome, told: str = "", name: str = "a trial") -> Check:
    return Check(suite="trials", name=name, outcome=outcome, told=told)


def test_every_timed_trial_and_every_claim_is_a_check() -> None:
    recording = open_recording(RECORDING)

    names = Counter(one.suite == "trials" for one in checks_of(recording))

    assert names[True] == sum(one.trial.kind == "timed" for one in recording.sealed)
    expected = sum(len(one.claims) or 1 for one in recording.verdicts)
    assert names[False] == expected + sum(len(one.integrity) for one in recording.verdicts)


@given(st.lists(st.builds(check, st.sampled_from(OUTCOMES), st.text(), st.text()), min_size=1))
def test_any_text_gives_xml_that_parses_and_counts_its_cases(checks: list[Check]) -> None:
    root = ET.fromstring(junit(checks))  # noqa: S314 - our own text

    assert root.get("tests") == str(len(root.findall(".//testcase"))) == str(len(checks))
    assert root.get("failures") == str(len(root.findall(".//failure")))
    assert root.get("errors") == str(len(root.findall(".//error")))
    assert len(root.findall(".//failure")) == sum(one.outcome == "failed" for one in checks)


@pytest.mark.parametrize("count", [0, 1, 20, 500])
def test_a_comment_has_at_most_sixty_lines_whatever_failed(count: int) -> None:
    wrong = [check("failed", "line\n" * 100) for _ in range(count)]

    lines = comment(open_recording(RECORDING), wrong).splitlines()

    assert len(lines) <= MOST_LINES
    assert sum(line.startswith("- **failed**") for line in lines) == min(count, 20)


def test_a_comment_cannot_be_marked_up_or_call_people_by_what_a_server_said() -> None:
    text = comment(open_recording(RECORDING), [check("failed", "<img src=x> @everyone `x`")])

    assert "<img" not in text
    assert "@everyone" not in text
