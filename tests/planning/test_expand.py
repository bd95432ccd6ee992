"""Laws of expanding a matrix into cells."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench import planning
from specbench.config import parse_matrix
from specbench.errors import InputError
from specbench.model.load import Closed, Open
from specbench.model.matrix import Cell, Level, Matrix
from specbench.model.plan import LaunchSpec
from specbench.planning.design import Design
from tests.planning.matrices import BASE, few, matrices, matrix_of


def expanded(matrix: Matrix) -> list[Cell]:
    try:
        return planning.expand(matrix)
    except InputError:
        return []


def test_the_count_is_the_product_of_what_applies() -> None:
    cells = planning.expand(matrix_of())

    by_arm = {name: sum(c.algorithm == name for c in cells) for name in ("ar", "dflash", "ddtree")}

    assert by_arm == {"ar": 2 * 2 * 2, "dflash": 2 * 8, "ddtree": 2 * 2 * 8}


@few
@given(matrices())
def test_the_count_without_expressions_is_a_sum_of_products(matrix: Matrix) -> None:
    plain = msgspec.structs.replace(matrix, exclude=(), when={})
    design = Design(plain)

    wanted = sum(
        math.prod(
            len(levels)
            for name, levels in plain.factors.items()
            if name != "algorithm" and design.applies(name, str(algorithm))
        )
        for algorithm in plain.factors["algorithm"]
    )

    assert sum(cell.origin == "matrix" for cell in planning.expand(plain)) == wanted


@few
@given(matrices())
def test_collapse_is_idempotent(matrix: Matrix) -> None:
    design = Design(matrix)

    for cell in expanded(matrix):
        assert design.collapsed(cell.levels) == cell.levels


@few
@given(matrices())
def test_no_cell_stands_twice_and_no_id_either(matrix: Matrix) -> None:
    cells = expanded(matrix)

    assert len({tuple(cell.levels.items()) for cell in cells}) == len(cells)
    assert len({cell.cell_id for cell in cells}) == len(cells)


@few
@given(matrices())
def test_every_arm_has_its_control(matrix: Matrix) -> None:
    design = Design(matrix)
    cells = expanded(matrix)
    common = [name for name in design.names if name != "algorithm" and design.applies(name, "ar")]

    controls = {tuple(c.levels[n] for n in common) for c in cells if c.algorithm == "ar"}

    assert {tuple(c.levels[n] for n in common) for c in cells} == controls


@few
@given(matrices())
def test_excluded_cells_are_only_there_as_controls(matrix: Matrix) -> None:
    design = Design(matrix)

    for cell in expanded(matrix):
        assert design.wanted(tuple(cell.levels.values())) or cell.origin == "control"


@few
@given(matrices(), st.randoms(use_true_random=False))
def test_ids_are_stable_under_the_order_of_keys_and_levels(matrix: Matrix, random: object) -> None:
    names = list(matrix.factors)
    random.shuffle(names)  # type: ignore[attr-defined]
    turned = {name: tuple(reversed(matrix.factors[name])) for name in names}
    other = msgspec.structs.replace(matrix, factors=turned)

    assert {c.cell_id for c in expanded(other)} == {c.cell_id for c in expanded(matrix)}


def test_a_factor_for_other_arms_does_not_rename_a_cell() -> None:
    ids = {c.cell_id for c in planning.expand(matrix_of()) if c.algorithm == "ar"}
    factors = {**matrix_of().factors, "steps": (3, 5)}

    more = planning.expand(matrix_of(factors))

    assert {c.cell_id for c in more if c.algorithm == "ar"} == ids


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("model: {path: q, served_name: s}", "model"),
        ("server: {flags: {page-size: 16}}", "flags"),
        ("server: {env: {A: b}}", "environment"),
        ("server: {command: [x]}", "command"),
        ("files: ['a.py:/b.py']", "files"),
        ("workload: {requests: 9}", "workload"),
    ],
)
def test_each_part_of_the_definition_renames_every_cell(change: str, part: str) -> None:
    text = BASE.replace("model: {path: p, served_name: s}\n", "") if "model" in change else BASE
    before = planning.expand(matrix_of())

    after = planning.expand(parse_matrix(f"{text}{change}\n"))

    assert not {c.cell_id for c in before} & {c.cell_id for c in after}
    differing = {k for k, v in before[0].definition.items() if after[0].definition[k] != v}
    assert differing == {part}


def test_the_content_of_the_dataset_renames_every_cell() -> None:
    first = planning.expand(matrix_of(), datasets={"builtin:mixed": "a" * 64})
    second = planning.expand(matrix_of(), datasets={"builtin:mixed": "b" * 64})

    assert not {c.cell_id for c in first} & {c.cell_id for c in second}


def test_what_a_server_cannot_run_is_invalid_with_the_reason_and_not_dropped() -> None:
    def no_tp_2(spec: LaunchSpec, version: str | None) -> str | None:
        return f"no tp 2 in {version}" if ("tp-size", 2) in spec.flags else None

    cells = planning.expand(matrix_of(), version="0.5.23", invalid_reason=no_tp_2)

    assert {cell.invalid for cell in cells if cell.levels["tp"] == 2} == {"no tp 2 in 0.5.23"}
    assert {cell.invalid for cell in cells if cell.levels["tp"] == 1} == {None}
    assert len(cells) == len(planning.expand(matrix_of()))


@pytest.mark.parametrize(
    ("version", "invalid"), [("0.5.11", True), ("0.5.12", False), (None, False), ("fork", False)]
)
def test_an_algorithm_newer_than_the_server_is_invalid(version: str | None, invalid: bool) -> None:
    cells = planning.expand(matrix_of(), version=version)

    assert {cell.invalid is not None for cell in cells if cell.algorithm == "dflash"} == {invalid}


def test_include_adds_cells_over_the_factors_left_out() -> None:
    matrix = matrix_of(include=({"algorithm": ("ddtree",), "budget": (64,), "topk": (4,)},))

    added = [cell for cell in planning.expand(matrix) if cell.origin == "include"]

    assert len(added) == 2 * 2 * 2
    assert {cell.levels["budget"] for cell in added} == {64}


def test_include_expressions_keep_what_holds() -> None:
    cells = planning.expand(matrix_of(keep=("algorithm == 'ddtree'", "temperature == 0")))

    assert all(
        cell.algorithm == "ddtree" or cell.levels["temperature"] == 0 or cell.origin == "control"
        for cell in cells
    )
    assert any(cell.origin == "control" for cell in cells)


def test_a_control_that_was_excluded_is_added_again() -> None:
    cells = planning.expand(matrix_of(exclude=("algorithm == 'ar'",)))

    assert {cell.origin for cell in cells if cell.algorithm == "ar"} == {"control"}


def test_a_control_with_factors_of_its_own_keeps_its_levels() -> None:
    factors: dict[str, tuple[Level, ...]] = {
        "algorithm": ("ar", "ddtree"),
        "budget": (7, 16),
        "topk": (4,),
        "tp": (1,),
    }

    cells = planning.expand(matrix_of(factors, control="dflash"))

    budgets = sorted(c.levels["budget"] for c in cells if c.algorithm == "dflash")  # type: ignore[type-var]
    assert budgets == [7, 16]


def test_a_matrix_that_expands_to_nothing_is_refused_at_its_place() -> None:
    matrix = parse_matrix(BASE + "exclude: ['true']\n", "m.yaml")

    with pytest.raises(InputError, match="nothing") as caught:
        planning.expand(matrix)

    assert caught.value.where == "m.yaml:10:1"


def test_a_matrix_of_too_many_cells_is_refused_at_once() -> None:
    many = tuple(range(1, 5000))
    factors = {**matrix_of().factors, "concurrency": many, "max_tokens": many, "top_k": many}

    with pytest.raises(InputError, match="cells"):
        planning.expand(matrix_of(factors))


def test_a_flag_set_twice_is_refused() -> None:
    matrix = parse_matrix(BASE + "server: {flags: {tp-size: 4}}\n", "m.yaml")

    with pytest.raises(InputError, match=r"tp-size is set by the factor 'tp'") as caught:
        planning.expand(matrix)

    assert caught.value.where == "m.yaml:7:3"


def test_only_keeps_the_controls_that_are_needed() -> None:
    cells = planning.expand(matrix_of())

    kept = planning.only(
        cells, "algorithm == 'dflash' and tp == 2 and concurrency == 8", matrix_of()
    )

    assert {cell.algorithm for cell in kept} == {"ar", "dflash"}
    assert all(cell.levels["tp"] == 2 and cell.levels["concurrency"] == 8 for cell in kept)


@pytest.mark.parametrize("text", ["bugdet == 3", "budget =", "budget == 99", "", "(" * 99])
def test_only_refuses_what_it_cannot_follow(text: str) -> None:
    with pytest.raises(InputError):
        planning.only(planning.expand(matrix_of()), text, matrix_of())


def test_the_workload_of_a_cell_takes_its_request_levels() -> None:
    factors: dict[str, tuple[Level, ...]] = {
        "algorithm": ("ar",),
        "max_tokens": (9,),
        "top_p": (0.5,),
        "concurrency": (16,),
    }
    matrix = matrix_of(factors)
    cell = planning.expand(matrix)[0]

    assert planning.workload(matrix, cell).max_tokens == 9
    assert planning.asked(matrix, cell).sampling.top_p == 0.5
    assert planning.asked(matrix, cell).shape == Closed(concurrency=16, stagger_s=0.32)


@pytest.mark.parametrize(
    ("factors", "shape"),
    [
        ({}, Closed(concurrency=1, stagger_s=0.02)),
        ({"rate": (2.5,)}, Open(rate=2.5)),
        ({"rate": (2.5,), "concurrency": (8,)}, Open(rate=2.5, max_in_flight=8)),
        ({"rate": (None,), "concurrency": (800,)}, Closed(concurrency=800, stagger_s=2.0)),
    ],
)
def test_the_shape_of_load(factors: dict[str, tuple[float | None, ...]], shape: object) -> None:
    matrix = matrix_of({"algorithm": ("ar",), **factors})

    assert planning.asked(matrix, planning.expand(matrix)[0]).shape == shape
