"""Each format's file gives the rows and definitions that its field names promise."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.errors import InputError
from specbench.interchange.definitions import DEFINITIONS
from specbench.interchange.importing import import_all, import_file
from specbench.interchange.rows import ImportedRow
from specbench.interchange.store import read_imported, write_imported
from tests.interchange import results

FILES = {
    "sglang.jsonl": results.lines(results.SGLANG),
    "batch.jsonl": results.lines(results.ONE_BATCH),
    "aiperf.json": json.dumps(results.AIPERF),
    "records.jsonl": results.lines(*results.AIPERF_RECORDS),
    "vllm.json": json.dumps(results.VLLM),
    "guidellm.json": json.dumps(results.GUIDELLM),
    "genai.json": json.dumps(results.GENAI),
    "perf.json": json.dumps(results.INFERENCE_PERF),
    "inferencex.json": json.dumps([results.INFERENCEX]),
    "golden.yaml": results.GOLDEN,
    "acceptance_rate.json": json.dumps(results.SPECDEC),
    "speed.json": json.dumps(results.LLAMACPP),
    "report.json": json.dumps(results.LLMD),
}
EXPECTED: Mapping[str, tuple[str, dict[str, float], dict[str, str]]] = {
    "sglang.jsonl": (
        "sglang bench_serving",
        {"tok_s": 800.0, "accept_len_server": 2.9, "n_failed": 1, "ttft_ms_p50": 20.0},
        {"tok_s": "tok_s/wall-with-status", "accept_len_server": "accept/lifetime"},
    ),
    "batch.jsonl": (
        "sglang bench_one_batch_server",
        {"tok_s": 512.0, "accept_len_server": 2.5},
        {"tok_s": "unknown"},
    ),
    "aiperf.json": (
        "aiperf",
        {"tok_s": 790.0, "ttft_ms_p50": 21.0, "tpot_ms_p99": 9.0, "accept_len": 2.97},
        {"tpot_ms_p99": "tpot/after-first-chunk", "accept_len": "accept/pooled"},
    ),
    "records.jsonl": (
        "aiperf records",
        {"ttft_ms_p50": 20.0, "accept_len": 3.0, "verify_steps": 8, "n_failed": 1},
        {"accept_len": "accept/pooled"},
    ),
    "vllm.json": (
        "vllm bench serve",
        {"tok_s": 810.0, "ttft_ms_p50": 19.0, "accept_len": 2.95, "chunk_gap_ms_p99": 30.0},
        {"ttft_ms_p50": "ttft/first-choices", "chunk_gap_ms_p99": "chunk-gap/raw"},
    ),
    "guidellm.json": (
        "guidellm",
        {"tok_s": 866.7, "tpot_ms_p50": 4.0, "e2e_ms_p50": 500.0, "n_failed": 2},
        {"tpot_ms_p50": "tpot/minus-one", "tok_s": "tok_s/time-weighted"},
    ),
    "genai.json": (
        "genai-bench",
        {"tok_s": 700.0, "ttft_ms_p50": 20.0, "tpot_ms_mean": 5.0},
        {"tpot_ms_mean": "tpot/minus-one"},
    ),
    "perf.json": (
        "inference-perf",
        {"tok_s": 640.0, "ttft_ms_p50": 25.0, "n_failed": 0},
        {"ttft_ms_p50": "ttft/several-stamps"},
    ),
    "inferencex.json": (
        "inferencex",
        {"ttft_ms_p50": 120.0, "tpot_ms_mean": 6.0, "tok_s_user": 160.0},
        {"tpot_ms_mean": "tpot/minus-one-or-zero"},
    ),
    "golden.yaml": ("inferencex golden", {"accept_len": 2.83}, {"accept_len": "accept/golden"}),
    "acceptance_rate.json": (
        "specdec_bench",
        {"accept_len_request_mean": 3.4},
        {"accept_len_request_mean": "accept/chunk-size"},
    ),
    "speed.json": (
        "llama.cpp speed-bench",
        {"output_tokens": 300, "n_failed": 1},
        {"output_tokens": "count"},
    ),
    "report.json": (
        "llm-d benchmark report",
        {"tok_s": 900.0, "ttft_ms_p50": 30.0, "n_failed": 0},
        {"tok_s": "unknown"},
    ),
}


def written(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(FILES[name], encoding="utf-8")
    return path


def values(row: ImportedRow) -> dict[str, Any]:
    return {figure.column: pytest.approx(figure.value) for figure in row.figures if figure.column}


@pytest.mark.parametrize("name", FILES)
def test_each_format_gives_its_figures_under_our_columns_with_its_definitions(
    name: str, tmp_path: Path
) -> None:
    tool, figures, definitions = EXPECTED[name]

    row = import_file(written(tmp_path, name))[0]

    assert row.tool == tool
    assert {column: values(row)[column] for column in figures} == figures
    told = {figure.column: figure.definition for figure in row.figures}
    assert {column: told[column] for column in definitions} == definitions


@pytest.mark.parametrize("name", FILES)
def test_every_definition_of_a_figure_stands_in_the_dictionary(name: str, tmp_path: Path) -> None:
    rows = import_file(written(tmp_path, name))

    assert {figure.definition for row in rows for figure in row.figures} <= DEFINITIONS.keys()


def test_what_was_asked_becomes_factors(tmp_path: Path) -> None:
    row = import_file(written(tmp_path, "sglang.jsonl"))[0]

    assert row.levels["algorithm"] == "EAGLE3"
    assert row.levels["concurrency"] == 8
    assert row.levels["rate"] == "inf"


def test_acceptance_takes_its_settings_from_the_configuration_beside_it(tmp_path: Path) -> None:
    path = written(tmp_path, "acceptance_rate.json")
    path.with_name("configuration.json").write_text(
        '{"speculative_algorithm": "DFLASH", "draft_length": 8}', encoding="utf-8"
    )

    rows = import_file(path)

    assert [row.levels.get("algorithm") for row in rows] == ["DFLASH", "DFLASH"]
    assert rows[1].levels["category"] == "coding"


def test_a_folder_of_a_sweep_gives_a_row_for_every_run(tmp_path: Path) -> None:
    cell = tmp_path / "SERVE--a-BENCH--b"
    cell.mkdir()
    for number in range(3):
        run = {**results.VLLM, "run_number": number}
        (cell / f"run={number}.json").write_text(json.dumps(run), encoding="utf-8")
    (cell / "summary.json").write_text("[]", encoding="utf-8")
    (cell / "run=4.failure.json").write_text("{}", encoding="utf-8")

    rows = import_all([tmp_path])

    assert [row.levels["run"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({**results.AIPERF, "schema_version": "2.0"}, "schema_version 2.0"),
        ({**results.GUIDELLM, "metadata": {"guidellm_version": "9", "version": 3}}, "version 3"),
        ({**results.LLMD, "version": "0.3"}, "version 0.3"),
    ],
)
def test_a_file_of_a_newer_tool_is_refused_with_its_version(
    document: dict[str, Any], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "newer.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(InputError, match=told):
        import_file(path)


@pytest.mark.parametrize("text", ["", "  \n", "{}", "[]", "null", "no json", "[" * 100_000, "1"])
def test_what_is_no_result_is_told_in_a_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "strange.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError) as told:
        import_all([path])

    assert "\n" not in told.value.what


def test_a_field_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(json.dumps({**results.VLLM, "failed": "none"}), encoding="utf-8")

    with pytest.raises(InputError, match="`failed` is no number"):
        import_file(path)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_file_cut_off_at_any_byte_gives_rows_or_a_sentence(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    content = FILES[name].encode()
    path = tmp_path / name
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])

    assert told_or_read(path)


STRANGE: tuple[Any, ...] = (
    None,
    True,
    "word",
    "",
    [],
    {},
    [1],
    [{}],
    {"a": 1},
    -1,
    1e400,
    10**400,
    "inf",
    [[]],
)


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(document, dict):
        inside = document.items()
    elif isinstance(document, list):
        inside = enumerate(document)
    for key, value in inside:
        yield (*place, key)
        yield from places(value, (*place, key))


@pytest.mark.parametrize("name", [name for name in FILES if name != "golden.yaml"])
def test_any_value_of_another_kind_gives_rows_or_a_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "strange.json"
    original = json.dumps([json.loads(line) for line in FILES[name].splitlines()])

    for place in places(json.loads(original)):
        for value in STRANGE:
            document = json.loads(original)
            reduce(getitem, place[:-1], document)[place[-1]] = value
            path.write_text(json.dumps(document), encoding="utf-8")
            assert told_or_read(path), (place, value)


def told_or_read(path: Path) -> bool:
    try:
        return bool(import_all([path]))
    except InputError as error:
        return bool(error.what.strip())


def test_rows_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    rows = [row for name in FILES for row in import_file(written(tmp_path, name))]

    write_imported(rows, tmp_path / "imported")

    assert read_imported(tmp_path / "imported") == rows
    table = (tmp_path / "imported" / "figures.csv").read_text(encoding="utf-8")
    assert "mean_ttft_ms,ttft/first-choices,False,vllm bench serve" in table
