"""What is exported comes back as it was, and what was not measured is not there."""

import json
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from specbench.errors import InputError
from specbench.interchange.exports import FORMATS
from specbench.interchange.exports.profile import profiles
from specbench.interchange.exports.prometheus import textfile
from specbench.interchange.exports.trials import ExportedTrial, trials_of
from specbench.interchange.importing import import_all
from specbench.workflows.exported import export
from specbench.workflows.recording_open import open_recording

RECORDING = Path(__file__).parents[1] / "fixtures" / "recordings" / "schema-1-before-codes"
LATENCIES = re.compile(r"(ttft|tpot|e2e)_ms_p\d+")


def trial(**given: object) -> ExportedTrial:
    row = {"trial_id": "t", "host": "local", "n_requests": 4, "n_failed": 0}
    levels = {"algorithm": "eagle", "budget": given.pop("budget", 4)}
    return ExportedTrial(
        levels=levels, row=row | given, model="org/model", recording="r", version="1"
    )


@pytest.mark.parametrize("name", ["sglang", "aiperf", "llm-d"])
def test_what_another_tool_s_format_carries_comes_back_as_our_own_figures(
    name: str, tmp_path: Path
) -> None:
    trials = {one.row["tok_s"]: one.row for one in trials_of(open_recording(RECORDING))}

    rows = import_all(export(RECORDING, name, tmp_path))

    assert len(rows) == len(trials)
    for row in rows:
        speed = row.figure("tok_s")
        assert speed is not None
        assert speed.definition == "specbench"
        told = {one.column: one.value for one in row.figures if LATENCIES.fullmatch(one.column)}
        kept = trials[speed.value]
        assert told == {column: kept[column] for column in kept if LATENCIES.fullmatch(column)}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_writes_the_files_that_it_names(name: str, tmp_path: Path) -> None:
    files = export(RECORDING, name, tmp_path)

    assert files
    assert all(path.stat().st_size for path in files)


def test_a_parquet_file_has_units_inside_and_the_values_of_the_table(tmp_path: Path) -> None:
    path = export(RECORDING, "parquet", tmp_path)[0]

    units = {f.name: (f.metadata or {}).get(b"unit") for f in pq.read_schema(path)}
    assert units["tok_s"] == b"tokens/s"
    assert units["ttft_ms_p50"] == b"ms"
    ok = open_recording(RECORDING).trials.query("status == 'ok'")
    assert list(pd.read_parquet(path)["tok_s"]) == list(ok["tok_s"])


def test_a_csv_has_its_units_beside_it(tmp_path: Path) -> None:
    table, units = export(RECORDING, "csv", tmp_path)

    named = json.loads(units.read_text(encoding="utf-8"))
    assert list(pd.read_csv(table).columns) == list(named)
    assert named["tok_s"]["unit"] == "tokens/s"


def test_no_line_has_a_number_for_what_was_not_measured(tmp_path: Path) -> None:
    path = export(RECORDING, "jsonl", tmp_path)[0]
    table = open_recording(RECORDING).trials.set_index("trial_id")

    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    for line in lines:
        kept = table.loc[line["trial_id"]]
        assert not [name for name in line if name != "trial_id" and pd.isna(kept[name])]


def test_a_sample_of_prometheus_has_the_trial_in_its_labels() -> None:
    found = list(textfile([trial(tok_s=100.0, budget='a"b\\c\nd')]))

    assert "# TYPE specbench_tok_s gauge" in found
    sample = next(line for line in found if line.startswith("specbench_tok_s{"))
    assert sample.endswith("} 100.0")
    assert 'factor_budget="a\\"b\\\\c\\nd"' in sample


def test_a_profile_pools_the_acceptance_of_each_budget_over_its_steps() -> None:
    trials = [
        trial(budget=4, accept_len=2.0, verify_steps=100),
        trial(budget=4, accept_len=3.0, verify_steps=300),
        trial(budget=8, accept_len=4.0, verify_steps=10),
    ]

    found = profiles(trials)["eagle"]

    assert found["accept_length_by_k"] == {"4": 2.75, "8": 4.0}
    assert found["mean_accept_length"] == 4.0
    assert found["mean_accept_length_per_request"] is None


def test_plain_decoding_has_no_profile() -> None:
    plain = trial(accept_len=1.0, verify_steps=10)
    plain.levels["algorithm"] = "ar"

    assert profiles([plain]) == {}


@pytest.mark.parametrize(("name", "only"), [("xlsx", None), ("csv", "algorithm == 'none'")])
def test_an_unknown_format_or_an_empty_choice_is_refused(
    name: str, only: str | None, tmp_path: Path
) -> None:
    with pytest.raises(InputError):
        export(RECORDING, name, tmp_path, only)
