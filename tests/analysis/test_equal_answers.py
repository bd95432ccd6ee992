import pandas as pd

from specbench.analysis.compare import compare
from specbench.model.block_facts import BlockFacts
from tests.analysis.frames import Side, recording

Tables = tuple[pd.DataFrame, pd.DataFrame, dict[str, BlockFacts]]


def asked(temperature: float = 0.0) -> Tables:
    """Two arms with equal answers: a hash a prompt."""
    sides = [
        Side(name, {"temperature": temperature}, launches=1, trials=2, prompts=(0, 10))
        for name in ("dflash", "eagle")
    ]
    trials, requests, blocks = recording(*sides)
    return trials, requests.assign(output_sha256="sha of " + requests["prompt_id"]), blocks


def said(tables: Tables) -> list[str]:
    answer = compare(*tables, "dflash", "eagle", details=False)
    return [one for one in answer.caveats if "byte for byte" in one]


def test_equal_greedy_answers_are_told_as_evidence() -> None:
    (told,) = said(asked())

    assert told.startswith("20 of 20 greedy answers are those of the other arm, byte for byte")
    assert told.endswith("evidence of losslessness at temperature 0")


def test_one_answer_that_differs_is_counted_and_no_evidence_is_claimed() -> None:
    trials, requests, blocks = asked()
    requests.loc[requests.index[-1], "output_sha256"] = "another"

    (told,) = said((trials, requests, blocks))

    assert told == "19 of 20 greedy answers are those of the other arm, byte for byte"


def test_drawn_answers_and_answers_without_a_hash_tell_nothing() -> None:
    trials, requests, blocks = asked()

    assert said(asked(1.0)) == []
    assert said((trials, requests.assign(output_sha256=None), blocks)) == []
    assert said((trials, requests.drop(columns="output_sha256"), blocks)) == []
