from typing import Any

import pytest

from specbench.analysis.compare import compare
from specbench.analysis.confounds import block_facts
from specbench.errors import ConfoundError
from specbench.model.block_facts import BlockFacts
from tests.analysis.frames import Side, recording
from tests.recording.blocks import facts_of


def chain(**changes: Any) -> Side:
    return Side("dflash", accept_len=3.0, **changes)


def tree(**changes: Any) -> Side:
    return Side("ddtree", accept_len=3.5, **changes)


def kinds(*sides: Side) -> dict[str, str]:
    answer = compare(*recording(*sides), sides[0].algorithm, sides[1].algorithm)
    return {d.column: d.kind for d in answer.cells[0].differences}


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"server": {"disable_overlap_schedule": True}}, "server.disable_overlap_schedule"),
        ({"server": {"disable_cuda_graph": True}}, "server.disable_cuda_graph"),
        ({"server": {"attention_backend": "triton"}}, "server.attention_backend"),
        ({"server": {"max_running_requests": 48}, "concurrency": (64,)},
         "server.max_running_requests"),
        ({"server": {"speculative_accept_threshold_acc": 0.9}},
         "server.speculative_accept_threshold_acc"),
        ({"env": (("SGLANG_SET_CPU_AFFINITY", "1"),)}, "env.SGLANG_SET_CPU_AFFINITY"),
        ({"facts": {"version": "0.5.24"}}, "version"),
        ({"facts": {"host_facts": {"driver": "575"}}}, "host.driver"),
        ({"facts": {"code_hash": "beef"}}, "code_hash"),
        ({"facts": {"client": {"host": "elsewhere", "drive_from": "here"}}}, "client.host"),
    ],
)  # fmt: skip
def test_an_undeclared_difference_is_refused_and_named(
    changes: dict[str, Any], column: str
) -> None:
    base = {"facts": {"host_facts": {"driver": "570"}, "code_hash": "cafe"}}
    base |= {"concurrency": changes.get("concurrency", (1,))}
    other = base | changes
    other["facts"] = base["facts"] | changes.get("facts", {})

    with pytest.raises(ConfoundError) as refused:
        compare(*recording(chain(**base), tree(**other)), "dflash", "ddtree")

    assert list(refused.value.columns) == [column]
    assert len(set(refused.value.columns[column])) == 2


def test_both_values_stand_in_the_message() -> None:
    sides = (chain(server={"page_size_x": 1}), tree(server={"page_size_x": 64}))

    with pytest.raises(ConfoundError, match=r"server\.page_size_x: 1 against 64"):
        compare(*recording(*sides), "dflash", "ddtree")


def test_what_the_algorithm_forces_is_listed_not_refused() -> None:
    sides = (
        chain(server={"speculative_num_draft_tokens": 8, "max_total_num_tokens": 1000}),
        tree(server={"speculative_num_draft_tokens": 17, "max_total_num_tokens": 900}),
    )

    found = kinds(*sides)

    assert found["server.max_total_num_tokens"] == "coupled"
    assert found["server.speculative_num_draft_tokens"] == "coupled"


def forcing(**server: object) -> Side:
    spec = {"speculative": True, "forces": ["disable_overlap_schedule"], "flags": []}
    return tree(server=server, facts={"spec": spec})


def test_what_the_algorithm_is_defined_to_force_is_listed_not_refused() -> None:
    plain = chain(facts={"spec": {"speculative": True, "flags": []}})

    found = kinds(plain, forcing(disable_overlap_schedule=True))

    assert found["server.disable_overlap_schedule"] == "coupled"


def test_what_the_user_set_is_never_excused_as_forced() -> None:
    asked = chain(facts={"spec": {"flags": [["disable-overlap-schedule", True]]}})

    with pytest.raises(ConfoundError) as refused:
        kinds(asked, forcing(disable_overlap_schedule=True))

    assert "flag.disable-overlap-schedule" in refused.value.columns


def test_a_cap_that_never_acted_is_no_confound() -> None:
    found = kinds(
        Side("ar", server={"max_running_requests": 4000}, concurrency=(8,)),
        tree(server={"max_running_requests": 48}, concurrency=(8,)),
    )

    assert found["server.max_running_requests"] == "coupled"


def test_speculative_arguments_are_not_excused_between_equal_algorithms() -> None:
    trials, requests, blocks = recording(
        tree(server={"speculative_draft_window_size": 4}),
        tree(server={"speculative_draft_window_size": 8}),
    )
    trials["recording"] = ["old" if b.startswith("b0") else "new" for b in trials["block_id"]]

    with pytest.raises(ConfoundError, match="speculative_draft_window_size"):
        compare(trials, requests, blocks, "recording == 'old'", "recording == 'new'")


def test_seeds_ports_and_times_differ_between_all_launches_and_mean_nothing() -> None:
    found = kinds(
        chain(server={"port": 1, "startup_time": 3.0}), tree(server={"port": 2, "startup_time": 9})
    )

    assert set(found) == {"server.speculative_algorithm", "flag.speculative-algorithm"}


@pytest.mark.parametrize(
    "pattern", ["disable-cuda-graph", "server.disable_cuda_graph", "*cuda_graph", "disable_*"]
)
def test_an_allowed_column_is_written_into_the_answer(pattern: str) -> None:
    sides = (chain(), tree(server={"disable_cuda_graph": True}))

    answer = compare(*recording(*sides), "dflash", "ddtree", allow=[pattern])

    assert [d.column for d in answer.allowed] == ["server.disable_cuda_graph"]
    assert answer.allow == (pattern,)


def test_what_one_side_did_not_record_cannot_be_ruled_out() -> None:
    found = kinds(chain(), tree(facts={"host_facts": {"driver": "570"}}))

    assert found["host.driver"] == "unrecorded"


def test_a_declared_factor_explains_its_own_flag_only() -> None:
    sides = (
        Side("ddtree", {"tp": 4}, accept_len=3, server={"tp_size": 4, "ep_size": 1}),
        Side("ddtree", {"tp": 8}, accept_len=3, server={"tp_size": 8, "ep_size": 2}),
    )

    with pytest.raises(ConfoundError) as refused:
        compare(*recording(*sides), "tp == 4", "tp == 8")

    assert list(refused.value.columns) == ["server.ep_size"]


def test_two_declared_factors_are_compared_and_not_attributed() -> None:
    sides = (
        Side("dflash", {"budget": 8}, accept_len=3.0),
        Side("ddtree", {"budget": 16}, accept_len=3.5),
    )

    answer = compare(
        *recording(*sides),
        "algorithm == 'dflash' and budget == 8",
        "algorithm == 'ddtree' and budget == 16",
    )

    assert answer.declared == ("algorithm", "budget")
    assert any("no attribution" in caveat for caveat in answer.caveats)


def test_facts_of_trials_are_guarded_too() -> None:
    trials, requests, blocks = recording(chain(), tree())
    trials["workload.dataset_sha256"] = [
        "aa" if a == "dflash" else "bb" for a in trials["algorithm"]
    ]

    with pytest.raises(ConfoundError, match=r"workload\.dataset_sha256: aa against bb"):
        compare(trials, requests, blocks, "dflash", "ddtree")


def test_hosts_are_held_equal() -> None:
    trials, requests, blocks = recording(chain(), tree())
    trials.loc[trials["algorithm"] == "ddtree", "host"] = "other"

    with pytest.raises(ConfoundError, match="host"):
        compare(trials, requests, blocks, "dflash", "ddtree")


def test_a_scheduler_state_is_a_fact_only_where_it_says_more_than_the_argument() -> None:
    state = {"tp_size": 8, "threshold": 0.9, "capacity": 7}

    facts = block_facts(
        BlockFacts(server_info={"tp_size": 8, "threshold": 1, "internal_states": [state]})
    )

    assert facts == {
        "server.tp_size": "8",
        "server.threshold": "1",
        "server.internal_states.0.threshold": "0.9",
        "server.internal_states.0.capacity": "7",
    }


def test_facts_are_flattened_with_canonical_values() -> None:
    facts = block_facts(
        facts_of(
            server_info={"a": {"b": [1, 2]}, "ranks": [{"n": 2.0}]},
            spec={"flags": [["x", True]]},
        )
    )

    assert facts == {
        "server.a.b": "[1, 2]",
        "server.ranks.0.n": "2",
        "flag.x": "true",
        "spec.model_path": "/models/m",
        "spec.command": "[]",
        "spec.files": "[]",
    }
