"""Every column of the trials table is said once, and everything else derives from there."""

import ast
from collections.abc import Iterator
from pathlib import Path

from specbench.analysis.metrics import METRICS
from specbench.config.levels import RESERVED
from specbench.model.columns import BY_NAME, COLUMNS, TRIAL_COLUMNS, of_cells, shown_in

PACKAGE = Path(__file__).parents[2] / "specbench"
LISTED = 5
"""So many names of columns in one literal are a list of columns."""


def _literals(source: str) -> Iterator[tuple[int, set[str]]]:
    """Give the line and the texts of every tuple, list, set and dict of constants."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                yield node.lineno, {str(p.value) for p in parts if isinstance(p, ast.Constant)}
            case ast.Dict(keys=keys, values=values):
                if all(isinstance(value, ast.Constant) for value in values):
                    yield node.lineno, {str(k.value) for k in keys if isinstance(k, ast.Constant)}
            case _:
                pass


def test_no_other_module_lists_columns() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line, texts in _literals(path.read_text(encoding="utf-8"))
        if len(texts & BY_NAME.keys()) >= LISTED
    ]

    assert found == []


def test_a_list_of_columns_would_be_seen() -> None:
    listed = "SHOWN = ('tok_s', 'tok_s_user', 'accept_len', 'step_ms', 'lossless')"

    assert any(len(texts & BY_NAME.keys()) >= LISTED for _, texts in _literals(listed))


def test_a_name_stands_for_one_column() -> None:
    assert len(BY_NAME) == len(COLUMNS)


def test_the_columns_of_the_contract_stand_in_its_order() -> None:
    """Others may stand between them: a column that is added is no change of the contract."""
    promised = (
        "cell_id trial_id block_id host replicate order started_at status reason"
        " n_requests n_failed concurrency_effective client_lag_ms_p99"
        " tok_s tok_s_window tok_s_user ttft_ms_p50 ttft_ms_p90 ttft_ms_p95 ttft_ms_p99"
        " tpot_ms_p50 tpot_ms_p90 tpot_ms_p95 tpot_ms_p99 tpot_n chunk_gap_ms_p50"
        " e2e_ms_p50 e2e_ms_p90 e2e_ms_p95 e2e_ms_p99 goodput_rps"
        " accept_len accept_len_request_mean accept_len_server verify_steps step_ms"
        " tokens_per_chunk prompt_tokens output_tokens reasoning_tokens cached_tokens retractions"
        " gpu_power_w gpu_temp_c_max lossless flags"
    )

    kept = [name for name in TRIAL_COLUMNS if f" {name} " in f" {promised} "]
    assert " ".join(kept) == promised
    assert TRIAL_COLUMNS[0] == "cell_id"


def test_what_is_compared_has_a_better_side_and_a_metric() -> None:
    compared = {column.name for column in COLUMNS if column.compared is not None}

    assert compared == set(METRICS)
    assert all(BY_NAME[name].better is not None for name in compared)


def test_no_factor_may_take_the_name_of_a_column() -> None:
    assert set(BY_NAME) <= RESERVED


def test_a_unit_in_the_name_is_the_unit_of_the_column() -> None:
    for column in COLUMNS:
        if "_ms" in column.name:
            assert column.unit == "ms", column.name


def test_the_end_of_a_run_tells_of_a_cell_what_is_shown_for_cells_numbers_first() -> None:
    told = of_cells()

    kinds = [BY_NAME[name].dtype == "text" for name in told if name in BY_NAME]
    assert set(told) == {"trials", "speedup"} | {one.name for one in shown_in("cells")}
    assert (told[0], told.index("speedup")) == ("trials", 1 + kinds.count(False))
    assert kinds == sorted(kinds)
