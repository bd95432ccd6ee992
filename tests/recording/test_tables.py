import json
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from specbench.errors import RecordingError
from specbench.model.columns import TRIAL_COLUMNS, names_from
from specbench.model.verdict import Claim, RecordedVerdict, VerdictName
from specbench.recording import Recording, Writer
from specbench.recording.tables import (
    current_trials,
    lossless_of,
    write_parquet,
)
from tests.recording.records import manifest, measure, sealed, write_requests


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        measure(writer, 1)
        measure(writer, 2, "failed")
    return Recording(writer.paths.root)


def test_every_factor_and_every_column_of_the_contract_is_there(recording: Recording) -> None:
    table = recording.trials

    assert list(table.columns[:3]) == ["algorithm", "temperature", "concurrency"]
    assert tuple(table.columns[3 : 3 + len(TRIAL_COLUMNS)]) == TRIAL_COLUMNS


def test_what_was_not_measured_is_nan_and_not_zero(recording: Recording) -> None:
    row = recording.trials.iloc[0]

    assert row["tok_s"] == 10.0
    assert pd.isna(row["accept_len"])
    assert pd.isna(row["gpu_power_w"])


def test_requests_carry_their_trial(recording: Recording) -> None:
    requests = recording.requests

    assert set(requests["trial_id"]) == {"t001", "t002"}
    assert len(requests) == 6


def test_parquet_gives_back_what_was_written(recording: Recording, tmp_path: Path) -> None:
    table = recording.trials.copy()
    table["mixed"] = pd.Series(["none", 4], dtype=object)
    path = tmp_path / "trials.parquet"

    write_parquet(table, path)

    again = pd.read_parquet(path)
    assert list(again["mixed"]) == ["none", "4"]
    assert list(again["tok_s"]) == list(table["tok_s"])


def test_rows_of_other_definitions_are_computed_again(recording: Recording) -> None:
    newer = Recording(
        recording.path,
        summarise=lambda _, records: {"tok_s": float(len(list(records)))},
        row_version=2,
    )

    assert list(newer.trials["tok_s"]) == [3.0, 3.0]


def _checked(path: Path) -> Recording:
    """A recording whose columns follow from its requests: tok_s is their number and seven."""
    return Recording(
        path,
        summarise=lambda _, records: {"tok_s": float(len(list(records))) + 7.0},
        row_version=1,
    )


def test_a_row_of_no_known_hash_is_held_against_its_requests_and_refused_by_name(
    recording: Recording,
) -> None:
    recording.paths.journal.unlink()
    file = recording.paths.trial("t001") / "trial.json"
    content = json.loads(file.read_bytes()) | {"row_version": 1}
    columns = dict.fromkeys(names_from("requests", optional=False))
    file.write_text(json.dumps(content | {"row": columns | {"tok_s": 10.0}}))

    assert _checked(recording.path).trials.loc[0, "tok_s"] == 10.0

    file.write_text(json.dumps(content | {"row": columns | {"tok_s": 11.0}}))

    with pytest.raises(RecordingError, match=r"tok_s was changed .*: 11\.0 stands there.* 10\.0"):
        _ = _checked(recording.path).trials


def _verdict(fingerprint: str, claims: list[tuple[str, float]]) -> RecordedVerdict:
    said = [
        Claim(
            name="", verdict=msgspec.convert(verdict, VerdictName), method="", n_tokens=1,
            concurrency=1, temperature=temperature,
        )
        for verdict, temperature in claims
    ]  # fmt: skip
    return RecordedVerdict(verdict="holds", claims=said, launch_fingerprint=fingerprint)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], "untested"),
        ([("holds", 1.0)], "untested"),
        ([("holds", 0.0), ("violated", 1.0)], "holds"),
        ([("holds", 0.0), ("inconclusive", 0.0)], "inconclusive"),
        ([("inconclusive", 0.0), ("violated", 0.0)], "violated"),
    ],
)
def test_the_verdict_beside_a_speed_is_of_the_same_server_and_regime(
    claims: list[tuple[str, float]], expected: str
) -> None:
    document = _verdict("f0", claims)
    other = _verdict("f9", [("violated", 0.0)])
    timed = sealed(1)

    assert lossless_of(timed.trial, timed, [document, other]) == expected
    control = sealed(1, speculative=False)
    assert lossless_of(control.trial, control, [document]) is None


def test_only_the_last_trial_of_each_place_in_the_design_is_in_a_table() -> None:
    first, second, other = sealed(1, "failed"), sealed(2), sealed(3)
    for each, key in ((first, "a"), (second, "a"), (other, "b")):
        each.trial = msgspec.structs.replace(each.trial, key=key)

    assert current_trials([other, second, first]) == [second, other]


def test_integers_stay_integers_beside_blanks(tmp_path: Path) -> None:
    with Writer.create(tmp_path, manifest(), "0" * 8) as writer:
        for number, budget in ((1, 7), (2, None)):
            write_requests(writer.draft(f"t{number:03d}"), 1)
            one = sealed(number)
            cell = one.trial.cell
            levels = cell.levels | {"budget": budget, "top_p": 1.0, "cuda_graph": True}
            one.trial = msgspec.structs.replace(
                one.trial, cell=msgspec.structs.replace(cell, levels=levels)
            )
            one.row = {"n_failed": 3} if budget else {}
            writer.seal(one)
    table = Recording(writer.paths.root).trials

    table.to_csv(tmp_path / "trials.csv", index=False)
    write_parquet(table, tmp_path / "trials.parquet")

    text = pd.read_csv(tmp_path / "trials.csv", dtype=str, keep_default_na=False)
    assert list(text["budget"]) == ["7", ""]
    assert list(text["n_failed"]) == ["3", ""]
    assert list(text["top_p"]) == ["1.0", "1.0"]
    stored = pd.read_parquet(tmp_path / "trials.parquet", dtype_backend="numpy_nullable").dtypes
    assert str(stored["budget"]) == "Int64"
    assert str(stored["n_failed"]) == "Int64"
    assert str(stored["cuda_graph"]) == "boolean"
