"""The bill of a plan: by recordings, else by what is said, else by the hardware; else unknown."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench import planning
from specbench.config import parse_matrix, read_matrix
from specbench.model.bill import Assumptions, Bill, ModelFacts
from specbench.model.host import Host
from specbench.model.plan import History, PastLaunch, PastTrial, Plan
from specbench.planning.durations import VERIFY_TOKENS
from specbench.planning.expected import load_of
from specbench.verify.options import BUDGETS

ROOT = Path(__file__).parents[2]
MATRIX = """\
name: m
model: {path: p, served_name: s}
hosts: [a]
factors: {algorithm: [ar, ngram], tp: 4, temperature: [0.0, 1.0], concurrency: [1, 8]}
workload: {max_tokens: 100, ignore_eos: true}
"""
SAID = Assumptions(launch_minutes=6.0, tok_s=50.0)
HOST = Host(name="a", gpus=8)
MODEL = ModelFacts(weight_bytes=100e9, active_bytes=20e9, kv_bytes=1e5)


def planned(
    said: Assumptions | None = SAID,
    *,
    host: Host = HOST,
    history: History | None = None,
    model: ModelFacts | None = None,
    text: str = MATRIX,
) -> Plan:
    matrix = parse_matrix(text, "m.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "d"})
    return planning.plan(matrix, cells, {"a": host}, history=history, said=said, model=model)


def hours(bill: Bill) -> float:
    assert bill.hours is not None
    return bill.hours.expected


def test_the_shipped_tree_matrix_fits_into_one_night() -> None:
    matrix = read_matrix(ROOT / "experiments/kimi-ddtree.yaml")
    cells = planning.expand(matrix, datasets={"builtin:mixed": "d"})

    plan = planning.plan(
        matrix,
        cells,
        {"b300": Host(name="b300")},
        said=Assumptions(launch_minutes=8.0, tok_s=100.0),
    )

    assert 0.0 < hours(plan.bill) <= 12.0


def test_a_single_stream_takes_its_tokens_by_its_speed() -> None:
    part = {p.what: p for p in planned().bill.parts}["trials at concurrency 1"]

    assert part.count == 4
    assert part.hours.expected == pytest.approx(4 * (5 + (32 + 2) * 100 / 50) / 3600)


def test_the_parts_are_the_whole_and_the_largest_comes_first() -> None:
    bill = planned().bill

    assert hours(bill) == pytest.approx(sum(part.hours.expected for part in bill.parts))
    assert [p.hours.expected for p in bill.parts] == sorted(
        (p.hours.expected for p in bill.parts), reverse=True
    )


@given(st.floats(0.5, 60.0), st.floats(1.0, 1e4))
def test_a_slower_model_and_slower_launches_cost_more(minutes: float, tok_s: float) -> None:
    one = planned(Assumptions(launch_minutes=minutes, tok_s=tok_s)).bill
    slower = planned(Assumptions(launch_minutes=2 * minutes, tok_s=tok_s / 2)).bill

    assert hours(slower) > hours(one)
    for bill in (one, slower):
        assert bill.hours is not None
        assert bill.hours.low <= bill.hours.expected <= bill.hours.high


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (Assumptions(), ["--launch-minutes", "--tok-s"]),
        (Assumptions(tok_s=5.0), ["--launch-minutes"]),
        (Assumptions(launch_minutes=5.0), ["--tok-s"]),
    ],
)
def test_what_nothing_tells_is_unknown_and_never_guessed(
    said: Assumptions, missing: list[str]
) -> None:
    bill = planned(said).bill

    assert bill.hours is None
    assert len(bill.unknown) == len(missing)
    for option, unknown in zip(missing, bill.unknown, strict=True):
        assert option in unknown


def test_every_gpu_of_the_host_is_paid_for() -> None:
    bill = planned(host=msgspec.structs.replace(HOST, usd_per_gpu_hour=3.0)).bill

    assert bill.gpu_hours is not None
    assert bill.usd is not None
    assert bill.gpu_hours.expected == pytest.approx(8 * hours(bill))
    assert bill.usd.expected == pytest.approx(3 * 8 * hours(bill))


def test_without_a_count_the_gpus_of_the_server_are_paid_for_and_without_a_price_no_money() -> None:
    bill = planned(host=Host(name="a")).bill

    assert bill.gpu_hours is not None
    assert bill.gpu_hours.expected == pytest.approx(4 * hours(bill))
    assert bill.usd is None


def test_recordings_come_before_what_is_said_and_go_by_the_number_of_requests() -> None:
    plain = planned()
    trial = next(t for t in plain.trials if t.cell.levels["concurrency"] == 8)
    past = PastTrial(
        host="a", model="p", cell_id="other", seconds=600.0, requests=200, load=load_of(trial)
    )
    launch = PastLaunch(host="a", model="p", algorithm="ar", load_s=60.0)

    bill = planned(history=History(launches=(launch,), trials=(past,))).bill

    parts = {part.what: part for part in bill.parts}
    assert parts["launches"].hours.expected == pytest.approx(2 * 60 / 3600)
    assert parts["trials at concurrency 8"].hours.expected == pytest.approx(4 * 64 * 3 / 3600)
    assert parts["launches"].sources == ("recordings",)


def test_the_hardware_tells_with_a_wide_margin() -> None:
    bill = planned(None, host=msgspec.structs.replace(HOST, gpu="NVIDIA H200"), model=MODEL).bill

    assert {source for part in bill.parts for source in part.sources} == {"hardware"}
    assert bill.hours is not None
    assert bill.hours.high > 2 * bill.hours.low


def test_a_saving_leaves_the_hours_that_its_own_plan_has() -> None:
    plan = planned()

    for saving in plan.bill.savings:
        excluded = planned(text=f"{MATRIX}exclude: [{saving.exclude!r}]\n")
        assert hours(excluded.bill) == pytest.approx(saving.hours_left)
        assert saving.hours_left < hours(plan.bill)
    assert plan.bill.savings


def test_weights_that_cannot_fit_are_said_before_the_launch() -> None:
    gpu = msgspec.structs.replace(HOST, gpu="h100")
    large = msgspec.structs.replace(MODEL, weight_bytes=1e12)

    assert any("such a launch must fail" in n for n in planned(host=gpu, model=large).notices)
    assert not any("fit" in n for n in planned(host=gpu, model=MODEL).notices)


def test_a_load_that_the_kv_cache_cannot_hold_is_said() -> None:
    gpu = msgspec.structs.replace(HOST, gpu="h100")
    fat = msgspec.structs.replace(MODEL, kv_bytes=1e9)

    assert any("KV cache holds" in notice for notice in planned(host=gpu, model=fat).notices)


def test_a_verdict_costs_what_its_budget_allows() -> None:
    assert {name: budget.limit for name, budget in BUDGETS.items()} == VERIFY_TOKENS
