"""The report's layers: a first screen, folded evidence, a short form; the answers of `compare`."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.report_speed import write_recording
from specbench.report.document import assemble
from specbench.report.findings import compose
from specbench.report.findings.headline import MOST
from specbench.report.greedy import greedy_answers
from specbench.report.inputs import DIGEST, Evidence, gather
from specbench.report.judged import judged
from specbench.report.short_form import MOST_LINES, render_short
from specbench.report.statements import Section
from specbench.workflows import api
from tests.report.browser import Browser, chromium
from tests.report.synthetic import clean, grid, interleaved, verdict


def section(evidence: Evidence, anchor: str) -> Section:
    return next(one for one in compose(evidence).sections if one.anchor == anchor)


def answered(*, differ: int = 0) -> Evidence:
    """Answers of which each prompt has one, but for `differ` greedy answers of dflash."""
    evidence = clean(verdicts=[])
    digests = evidence.requests["prompt_id"].astype("category").cat.codes.to_numpy(dtype=float)
    greedy = evidence.trials[evidence.trials["temperature"] == 0]
    mine = greedy["cell_id"][greedy["algorithm"] == "dflash"]
    places = np.flatnonzero(
        evidence.requests["cell_id"].isin(mine) & (evidence.requests["phase"] == "measured")
    )[:differ]
    digests[places] += 1000
    return clean(verdicts=[], requests=evidence.requests.assign(**{DIGEST: digests}))


@pytest.mark.parametrize("violated", [0, 1, 5])
def test_the_first_screen_has_seven_sentences_at_most_and_one_picture(violated: int) -> None:
    broken = [verdict(f"arm{number}", verdict="violated") for number in range(violated)]
    rows = interleaved(grid())
    rows[0] |= {"status": "failed", "reason": "died", "tok_s": None}

    first = compose(clean(rows, verdicts=[*broken, verdict("dflash")])).sections[0]

    assert 0 < len(first.statements) <= MOST
    assert len(first.plots) == 1
    assert sum(one.kind == "violated" for one in first.statements) >= min(violated, 2)


def test_equal_greedy_answers_are_said_to_be_lossless_on_the_first_screen() -> None:
    evidence = answered()

    first = compose(evidence).sections[0].statements[0]

    assert first.text.startswith("Lossless at temperature 0, as far as these prompts show")
    assert all(one.equal == one.answers > 0 for one in greedy_answers(evidence))
    assert "above it losslessness was not tested" in first.text.lower()


def test_one_other_greedy_answer_takes_the_word_lossless_away_and_names_its_trial() -> None:
    evidence = answered(differ=1)

    first = compose(evidence).sections[0].statements[0]

    assert "Lossless at temperature 0" not in first.text
    assert "near ties or a fault" in first.text
    assert len(first.rows) == 1
    assert first.rows[0] in set(evidence.trials["trial_id"])


def test_answers_that_were_not_recorded_prove_nothing() -> None:
    assert greedy_answers(clean(verdicts=[])) == []


def test_every_pair_of_arms_has_a_row_in_the_grid() -> None:
    table = section(clean(), "arms").tables[0]

    assert [row[0] for row in table.rows] == ["dflash / ar", "ddtree / ar", "ddtree / dflash"]
    assert table.heads[:2] == ("pair", "all cells")
    assert table.heads[2:] == tuple(sorted(table.heads[2:], key=lambda head: "c" in head[:1]))


def test_sections_that_have_nothing_to_say_are_absent() -> None:
    anchors = {one.anchor for one in compose(clean()).sections}

    assert "failures" not in anchors
    assert "flags" not in anchors
    assert "headline" in anchors


def test_the_checklist_shows_only_what_was_found_or_could_not_be_told() -> None:
    checklist = section(clean(), "checklist")

    states = {row[2] for table in checklist.tables for row in table.rows}
    assert "excluded" not in states
    assert checklist.intro.startswith("Ruled out: ")


def test_every_claim_on_the_first_screen_names_its_rows_and_its_command() -> None:
    claims = [one for one in compose(clean()).sections[0].statements if "Faster" in one.text]

    assert claims
    assert all(one.rows and one.command.startswith("specbench compare") for one in claims)


@pytest.mark.process
@pytest.mark.parametrize("chapters", [1, 30])
def test_the_short_form_fits_a_pull_request(chapters: int) -> None:
    document = assemble([clean() for _ in range(chapters)][:1])
    many = type(document)(title=document.title, chapters=document.chapters * chapters)

    lines = render_short(many).splitlines()

    assert len(lines) <= MOST_LINES
    assert any("dflash / ar" in line for line in lines)
    assert lines[-1].startswith("More is in")


def test_the_report_and_the_python_api_give_the_same_figures(tmp_path: Path) -> None:
    root = tmp_path / "recording"
    write_recording(root, trials=12, requests=24)
    recording = api.open(root)
    arms = list(dict.fromkeys(recording.trials["algorithm"]))

    told = api.compare(recording, arms[0], arms[1])
    page = judged(gather(recording), arms[0], arms[1])

    assert page is not None
    assert [one.this_workload for one in page.cells] == [one.this_workload for one in told.cells]
    assert page.pooled == told.pooled


@pytest.mark.process
@pytest.mark.skipif(chromium() is None, reason="no chromium here (apt-get install chromium)")
def test_what_is_not_folded_has_900_words_at_most_and_a_link_opens_the_fold(
    tmp_path: Path,
) -> None:
    from specbench.report.writing import write_report  # noqa: PLC0415 - with the browser only

    files = write_report([answered()], tmp_path / "report")
    with Browser(tmp_path / "profile") as browser:
        browser.open(files.html)
        words = len(str(browser.evaluate("document.body.innerText")).split())
        opened = browser.evaluate(
            """(() => {
              const link = document.querySelector('.headline .rows a');
              const target = document.getElementById(link.hash.slice(1));
              const before = target.checkVisibility();
              link.click();
              return new Promise((done) => setTimeout(
                () => done([before, target.closest('details').open]), 300));
            })()"""
        )

    assert words <= 900
    assert opened == [False, True]
