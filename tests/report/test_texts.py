"""What they wrote: kept replies side by side, the first difference marked, loops named."""

from dataclasses import replace

from specbench.report.findings import compose
from specbench.report.findings.texts import MARK, section
from specbench.report.inputs import Evidence
from tests.report.synthetic import clean

ASKED = {"p1": "The moon is a rock.", "p2": "Four legs."}


def written(**arms: dict[str, str]) -> Evidence:
    evidence = clean()
    cells = evidence.trials.drop_duplicates("cell_id")
    owners = zip(cells["cell_id"].astype(str), cells["algorithm"].astype(str), strict=True)
    return replace(evidence, texts={cell: arms[arm] for cell, arm in owners if arm in arms})


def test_equal_replies_are_said_to_be_the_same() -> None:
    table = section(written(ar=ASKED, dflash=ASKED)).tables[0]

    assert {row[-1] for row in table.rows} == {"none"}
    assert all(row[3] == "the same" for row in table.rows)


def test_the_first_difference_is_marked_in_both_texts() -> None:
    other = ASKED | {"p1": "The moon is a cheese."}

    table = section(written(ar=ASKED, dflash=other)).tables[0]

    row = next(row for row in table.rows if row[1] == "p1")
    assert row[2] == f"The moon is a {MARK}rock."
    assert row[3] == f"The moon is a {MARK}cheese."
    assert row[4] == "character 15"


def test_an_empty_reply_is_shown_as_nothing() -> None:
    table = section(written(ar=ASKED, ddtree=ASKED | {"p2": ""})).tables[0]

    row = next(row for row in table.rows if row[1] == "p2")
    assert row[3] == "(nothing)"


def test_one_cell_stands_for_each_arm_and_temperature() -> None:
    table = section(written(ar=ASKED, dflash=ASKED, ddtree=ASKED)).tables[0]

    assert len(table.rows) == 2 * 2 * len(ASKED)


def test_a_loop_is_named_as_no_success() -> None:
    looping = {"p1": "again and again " * 20}

    (told,) = section(written(ar=ASKED | looping, dflash=ASKED | looping)).statements

    assert "a loop is easy to draft" in told.text
    assert told.rows


def test_without_kept_texts_the_section_is_absent() -> None:
    assert "texts" not in {one.anchor for one in compose(clean()).sections}
