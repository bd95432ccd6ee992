"""Laws of what is still to be measured, and of what it is expected to take."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench import planning
from specbench.config import parse_matrix
from specbench.errors import InputError
from specbench.model.host import Host
from specbench.model.matrix import Matrix
from specbench.model.plan import History, Measured, PastLaunch, PastTrial, Plan, Trial
from tests.planning.matrices import BASE, few, matrices, matrix_of

HOSTS = {"local": Host(name="local")}


def planned(
    matrix: Matrix, done: dict[str, Measured] | None = None, engine: str = "", dataset: str = "d"
) -> Plan:
    cells = planning.expand(matrix, datasets={"builtin:mixed": dataset})
    engines = {"local": engine} if engine else {}
    return planning.plan(matrix, cells, HOSTS, done, engines=engines)


def sealed(trials: tuple[Trial, ...], state: str = "ok") -> dict[str, Measured]:
    return {
        t.trial_id: Measured(state=state, key=t.key, definition=t.definition, reason="oom")  # type: ignore[arg-type]
        for t in trials
    }


def states(plan: Plan) -> dict[str, int]:
    return planning.explain(plan).states


@few
@given(matrices(), st.data())
def test_what_is_done_is_never_planned_again_and_the_rest_is(
    matrix: Matrix, data: st.DataObject
) -> None:
    try:
        whole = planned(matrix)
    except InputError:
        return
    share = data.draw(st.integers(0, len(whole.trials)))
    order = data.draw(st.permutations(whole.trials)) if len(whole.trials) < 50 else whole.trials
    done = sealed(tuple(order[:share]))

    rest = planned(matrix, done)

    assert {t.trial_id for t in rest.trials} == {t.trial_id for t in whole.trials} - set(done)
    assert all(block.trials for block in rest.blocks)
    assert [t.trial_id for t in rest.trials] == [
        t.trial_id for t in whole.trials if t.trial_id not in done
    ]
    assert len(rest.reasons) == len(whole.reasons)


def test_a_block_that_was_measured_in_part_is_resumed() -> None:
    whole = planned(matrix_of())
    first = whole.blocks[0]

    rest = planned(matrix_of(), sealed(first.trials[:2]))

    assert rest.blocks[0].block_id == first.block_id
    assert [block.resumed for block in rest.blocks] == [True] + [False] * (len(rest.blocks) - 1)
    assert [trial.order for trial in rest.blocks[0].trials] == [2, 3]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("server: {flags: {page-size: 16}}\n", "flags"),
        ("server: {env: {A: b}}\n", "environment"),
        ("workload: {requests: 9}\n", "workload"),
    ],
)
def test_a_changed_definition_makes_trials_stale_and_is_named(change: str, part: str) -> None:
    done = sealed(planned(matrix_of()).trials)

    plan = planned(parse_matrix(BASE + change), done)

    assert {reason.state for reason in plan.reasons} == {"stale"}
    assert {reason.reason for reason in plan.reasons} == {f"changed since: {part}"}
    assert not {trial.trial_id for trial in plan.trials} & set(done)


def test_a_changed_dataset_or_engine_makes_trials_stale() -> None:
    done = sealed(planned(matrix_of(), engine="image:1").trials)

    dataset = planned(matrix_of(), done, engine="image:1", dataset="e")
    engine = planned(matrix_of(), done, engine="image:2")

    assert {reason.reason for reason in dataset.reasons} == {"changed since: dataset"}
    assert {reason.reason for reason in engine.reasons} == {"changed since: engine"}
    assert not {trial.trial_id for trial in engine.trials} & set(done)


def test_another_content_of_a_file_is_another_server_and_makes_trials_stale() -> None:
    first = matrix_of(files=("p.py:/p.py",), file_hashes={"/p.py": "1"})
    done = sealed(planned(first).trials)
    second = matrix_of(files=("p.py:/p.py",), file_hashes={"/p.py": "2"})

    plan = planned(second, done)

    assert {reason.reason for reason in plan.reasons} == {"changed since: files"}
    assert not {cell.launch for cell in planning.expand(first)} & {
        cell.launch for cell in planning.expand(second)
    }


def test_a_file_of_the_host_that_came_changed_or_went_makes_trials_stale() -> None:
    matrix = matrix_of()
    cells = planning.expand(matrix)

    def on_host(done: dict[str, Measured] | None, content: str | None = None) -> Plan:
        files = {"local": {} if content is None else {"/p.py": content}}
        return planning.plan(matrix, cells, HOSTS, done, host_files=files)

    done = sealed(on_host(None, "1").trials)
    again, changed, gone = on_host(done, "1"), on_host(done, "2"), on_host(done)
    came = on_host(sealed(gone.trials), "1")

    assert states(again) == {"done": len(done)}
    for plan in (changed, gone, came):
        assert {reason.reason for reason in plan.reasons} == {"changed since: files"}
    assert not {trial.trial_id for trial in changed.trials} & set(done)


def test_an_engine_that_is_not_known_yet_is_no_change() -> None:
    done = sealed(planned(matrix_of(), engine="image:1").trials)

    plan = planned(matrix_of(), done)

    assert states(plan) == {"done": len(done)}
    assert {reason.trial_id for reason in plan.reasons} == set(done)


def test_what_was_measured_again_after_a_change_is_done() -> None:
    old = sealed(planned(matrix_of(), engine="image:1").trials)
    new = sealed(planned(matrix_of(), old, engine="image:2").trials)

    plan = planned(matrix_of(), old | new, engine="image:2")

    assert states(plan) == {"done": len(new)}


def test_a_failed_trial_is_tried_again_under_another_id_each_time() -> None:
    whole = planned(matrix_of())
    failed = sealed(whole.trials[:1], "failed")

    second = planned(matrix_of(), failed)
    third = planned(matrix_of(), failed | sealed(second.trials[:1], "failed"))
    fourth = planned(matrix_of(), failed | sealed(second.trials[:1]))

    ids = {plan.trials[0].trial_id for plan in (whole, second, third)}
    assert len(ids) == 3
    assert next(r for r in second.reasons if r.state == "failed").reason == "failed before: oom"
    assert states(fourth) == {"done": 1, "missing": len(whole.trials) - 1}


def test_a_cell_added_to_the_matrix_is_missing_and_the_others_are_done() -> None:
    done = sealed(planned(matrix_of()).trials)
    wider = matrix_of({**matrix_of().factors, "concurrency": (1, 8, 64)})

    plan = planned(wider, done)

    assert states(plan) == {"done": len(done), "missing": len(done) // 2}


def test_another_depth_of_verification_makes_only_the_verification_stale() -> None:
    quick = planned(matrix_of(verify="quick"))

    deep = planned(matrix_of(verify="deep"), sealed(quick.trials))

    assert {trial.kind for trial in deep.trials} == {"verify"}
    assert {r.reason for r in deep.reasons if r.state == "stale"} == {"changed since: verify"}


def test_the_expected_time_is_learned_by_host_model_and_cell() -> None:
    matrix = matrix_of({"algorithm": ("ar", "dflash"), "budget": (7,), "concurrency": (1, 8)})
    cells = planning.expand(matrix)
    past = [PastTrial(host="local", model="p", cell_id=c.cell_id, seconds=10.0) for c in cells[:1]]
    past += [PastTrial(host="local", model="p", cell_id="x", seconds=20.0)] * 2
    loads = [
        PastLaunch(host="local", model="p", algorithm="ar", load_s=100.0),
        PastLaunch(host="local", model="p", algorithm="eagle", load_s=300.0),
    ]

    plan = planning.plan(
        matrix, cells, HOSTS, history=History(launches=tuple(loads), trials=tuple(past))
    )

    assert plan.expected_s == 100.0 + 10.0 + 20.0 + 200.0 + 20.0 + 20.0
    line = planning.explain(plan).blocks[0]
    assert line.expected_s == 130.0


def test_an_unknown_time_is_not_told() -> None:
    other = History(launches=(PastLaunch(host="b", model="p", algorithm="ar", load_s=1.0),))
    cells = planning.expand(matrix_of())

    plan = planning.plan(matrix_of(), cells, HOSTS, history=other)

    assert plan.expected_s is None
    assert {reason.expected_s for reason in plan.reasons} == {None}


def test_hosts_work_in_parallel() -> None:
    matrix = matrix_of(hosts=("local", "b"))
    hosts = {**HOSTS, "b": Host(name="b")}
    loads = [PastLaunch(host=h, model="p", algorithm="ar", load_s=10.0) for h in hosts]
    trials = [PastTrial(host=h, model="p", cell_id="x", seconds=1.0) for h in hosts]

    plan = planning.plan(
        matrix,
        planning.expand(matrix),
        hosts,
        history=History(launches=tuple(loads), trials=tuple(trials)),
    )

    assert plan.expected_s == 7 * 10.0 + len(plan.trials) / 2


def test_an_explanation_is_plain_data() -> None:
    plan = planned(matrix_of(verify="quick"))

    explained = planning.explain(plan)

    assert msgspec.json.decode(msgspec.json.encode(explained))["launches"] == plan.launches
    assert sum(line.trials + line.verifications for line in explained.blocks) == len(plan.trials)
