"""Acceptance by category, temperature, context, depth and prompt; speculation in name only."""

from specbench.report.findings import compose
from specbench.report.findings.acceptance_slices import facts, inactive, slices
from tests.report.synthetic import clean, grid, interleaved


def test_temperature_has_a_row_an_arm_with_an_interval() -> None:
    evidence = clean()

    rows = [row for table in slices(evidence)[:1] for row in table.rows]

    by_temperature = [row for row in rows if row[1] == "temperature"]
    assert {(row[0], row[2]) for row in by_temperature} == {
        (arm, level) for arm in ("dflash", "ddtree") for level in ("0", "1")
    }
    assert all(row[4] for row in by_temperature)


def test_colder_drafts_are_accepted_more_in_these_recordings() -> None:
    rows = {(row[0], row[1], row[2]): float(row[3]) for row in slices(clean())[0].rows}

    assert rows["dflash", "temperature", "0"] > rows["dflash", "temperature", "1"]


def test_context_is_split_where_prompts_are_of_several_lengths() -> None:
    evidence = clean()
    lengths = [100.0 if i % 2 else 1000.0 for i in range(len(evidence.requests))]
    evidence = clean(requests=evidence.requests.assign(prompt_tokens=lengths))

    found = {row[2] for row in slices(evidence)[0].rows if row[1] == "context"}

    assert found == {"0 to 127 tokens", "512 to 2047 tokens"}


def test_depth_counts_only_steps_that_had_so_many_drafts() -> None:
    trials = clean().trials
    arm = trials[trials["algorithm"] == "dflash"]["trial_id"].astype(str).tolist()
    evidence = clean(histograms={arm[0]: [500, 500], arm[1]: [0, 0, 1000]})

    rows = {row[1]: row[2:] for row in slices(evidence)[-1].rows}

    assert rows[1] == ("75.0 %", 2000)
    assert rows[2] == ("100 %", 1000)


def test_the_prompts_that_gain_most_and_least_are_named() -> None:
    told = list(facts(clean()))

    assert len(told) == 2
    assert all("gains most" in one.text and "least" in one.text for one in told)


def test_an_arm_that_accepts_nothing_is_said_to_speculate_in_name_only() -> None:
    rows = [
        row | {"accept_len": 1.0} if row["algorithm"] == "ddtree" else row
        for row in interleaved(grid())
    ]

    (told,) = inactive(clean(rows))

    assert told.text.startswith("`speculation_inactive`: 6 cells")
    assert list(inactive(clean())) == []
    section = next(one for one in compose(clean(rows)).sections if one.anchor == "acceptance")
    assert section.statements[0] == told
