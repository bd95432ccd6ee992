"""Laws of ordering cells into launches and trials."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given

from specbench import planning
from specbench.errors import InputError
from specbench.model.host import Host
from specbench.model.matrix import Level, Matrix, Replicates
from specbench.model.plan import Plan
from tests.planning.matrices import few, matrices, matrix_of

LOCAL = {name: Host(name=name) for name in ("local", "a", "b", "c")}


def planned(matrix: Matrix) -> Plan:
    try:
        cells = planning.expand(matrix)
    except InputError:
        return Plan(blocks=())
    return planning.plan(matrix, cells, LOCAL)


@few
@given(matrices())
def test_a_server_is_started_once_a_replicate(matrix: Matrix) -> None:
    plan = planned(matrix)

    starts = Counter((block.host, block.spec.fingerprint, block.launch) for block in plan.blocks)

    assert set(starts.values()) <= {1}
    servers = {block.spec.fingerprint for block in plan.blocks}
    assert plan.launches == len(servers) * matrix.replicates.launches


@few
@given(matrices())
def test_every_valid_cell_is_measured_as_often_as_asked(matrix: Matrix) -> None:
    plan = planned(matrix)

    times = Counter(trial.cell.cell_id for trial in plan.trials if trial.kind == "timed")

    assert set(times.values()) <= {matrix.replicates.launches * matrix.replicates.trials}
    assert set(times) == {c.cell_id for c in planning.expand(matrix)} if times else True


@few
@given(matrices())
def test_every_trial_runs_on_the_server_that_its_cell_needs(matrix: Matrix) -> None:
    for block in planned(matrix).blocks:
        assert {trial.cell.launch for trial in block.trials} == {block.spec.fingerprint}
        assert [trial.order for trial in block.trials] == list(range(len(block.trials)))
        assert {trial.block_id for trial in block.trials} == {block.block_id}


@few
@given(matrices())
def test_ids_are_unique_and_a_plan_is_the_same_twice(matrix: Matrix) -> None:
    plan = planned(matrix)

    assert len({trial.trial_id for trial in plan.trials}) == len(plan.trials)
    assert len({block.block_id for block in plan.blocks}) == len(plan.blocks)
    assert planned(matrix) == plan


@few
@given(matrices())
def test_equal_load_has_equal_seeds_on_every_arm(matrix: Matrix) -> None:
    seeds: dict[tuple[object, ...], set[int]] = {}
    for trial in planned(matrix).trials:
        if trial.kind == "timed":
            load = (trial.cell.definition["load levels"], trial.launch, trial.replicate)
            seeds.setdefault(load, set()).add(trial.seed)

    assert all(len(found) == 1 for found in seeds.values())
    assert len({seed for found in seeds.values() for seed in found}) == len(seeds)


@few
@given(matrices())
def test_replicates_are_rounds_and_every_arm_has_the_same_order_in_them(matrix: Matrix) -> None:
    for launch in range(matrix.replicates.launches):
        orders: dict[frozenset[tuple[int, str]], list[tuple[int, str]]] = {}
        for block in planned(matrix).blocks:
            if block.launch != launch:
                continue
            timed = [trial for trial in block.trials if trial.kind == "timed"]
            order = [(t.replicate, t.cell.definition["load levels"]) for t in timed]
            assert [replicate for replicate, _ in order] == sorted(t.replicate for t in timed)
            assert orders.setdefault(frozenset(order), order) == order


def test_the_seed_of_the_matrix_shuffles() -> None:
    orders = set()
    for seed in range(8):
        plan = planned(matrix_of(seed=seed))
        orders.add(tuple(t.cell.definition["load levels"] for t in plan.blocks[0].trials))

    assert len(orders) > 4


def test_arms_alternate_when_launches_are_replicated() -> None:
    factors: dict[str, tuple[Level, ...]] = {"algorithm": ("dflash", "ar", "ngram"), "budget": (7,)}

    plan = planned(matrix_of(factors, replicates=Replicates(launches=4)))

    arms = [block.spec.algorithm for block in plan.blocks]
    assert arms == [
        *("ar", "dflash", "ngram"),
        *("ngram", "dflash", "ar"),
        *("ar", "dflash", "ngram"),
        *("ngram", "dflash", "ar"),
    ]


@few
@given(matrices())
def test_verification_follows_the_timed_trials_of_every_speculative_server_once(
    matrix: Matrix,
) -> None:
    checked: Counter[str] = Counter()
    for block in planned(matrix).blocks:
        kinds = [trial.kind for trial in block.trials]
        assert kinds == sorted(kinds)
        checked[block.spec.fingerprint] += kinds.count("verify")
        assert block.spec.speculative or "verify" not in kinds

    speculative = {b.spec.fingerprint for b in planned(matrix).blocks if b.spec.speculative}
    wanted = set(speculative) if matrix.verify else set()
    assert {name for name, count in checked.items() if count == 1} == wanted
    assert max(checked.values(), default=0) <= 1


@few
@given(matrices())
def test_a_comparison_never_straddles_hosts(matrix: Matrix) -> None:
    shared = msgspec.structs.replace(matrix, hosts=("a", "b", "c"))

    hosts: dict[object, set[str]] = {}
    for block in planned(shared).blocks:
        common = (block.spec.levels.get("tp"), block.spec.levels.get("cuda_graph"))
        hosts.setdefault(common, set()).add(block.host)

    assert all(len(found) == 1 for found in hosts.values())


def test_groups_are_shared_out_evenly_and_idle_hosts_are_told() -> None:
    even = planned(matrix_of(hosts=("a", "b")))
    idle = planned(matrix_of(hosts=("a", "b", "c")))

    assert Counter(block.host for block in even.blocks) == {"a": 7, "b": 7}
    assert any("no work for c" in notice for notice in idle.notices)


def test_every_host_measures_all_of_it_when_asked() -> None:
    plan = planned(matrix_of(hosts=("a", "b"), spread="every"))

    shares = [
        {trial.cell.cell_id for trial in plan.trials if trial.host == host} for host in ("a", "b")
    ]

    assert shares[0] == shares[1]
    assert len({trial.trial_id for trial in plan.trials}) == len(plan.trials)


def test_a_host_that_is_not_in_the_file_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="locl"):
        planned(matrix_of(hosts=("locl",)))


def test_a_plan_of_too_many_trials_is_refused_at_once() -> None:
    matrix = matrix_of(replicates=Replicates(launches=1000, trials=1000))

    with pytest.raises(InputError, match="trials"):
        planning.plan(matrix, planning.expand(matrix), LOCAL)


def test_invalid_cells_are_reported_and_not_launched() -> None:
    matrix = matrix_of()
    cells = planning.expand(matrix, invalid_reason=lambda s, _: "no" if s.speculative else None)

    plan = planning.plan(matrix, cells, LOCAL)

    assert {trial.cell.algorithm for trial in plan.trials} == {"ar"}
    assert {cell.algorithm for cell in plan.invalid} == {"dflash", "ddtree"}
    assert {r.reason for r in plan.reasons if r.state == "invalid"} == {"no"}


def test_a_factor_without_effect_is_told() -> None:
    plan = planned(matrix_of({"algorithm": ("ar", "dflash"), "budget": (7,), "topk": (1, 4)}))

    assert any("'topk' applies to no cell" in notice for notice in plan.notices)


@few
@given(matrices())
def test_every_trial_carries_what_its_cell_asks(matrix: Matrix) -> None:
    plan = planned(matrix)

    assert all(trial.asked == planning.asked(matrix, trial.cell) for trial in plan.trials)


def test_ids_are_those_of_earlier_recordings_so_that_they_resume() -> None:
    factors: dict[str, tuple[Level, ...]] = {
        "algorithm": ("ar", "dflash"),
        "temperature": (0.0,),
        "concurrency": (4,),
    }

    plan = planned(matrix_of(factors))

    assert [(trial.cell.cell_id, trial.trial_id) for trial in plan.trials] == [
        ("4ad2988542ae6098", "a577d70e00fb9cc5"),
        ("682e0c1b4fdfb136", "9de2f2874584e57a"),
    ]
