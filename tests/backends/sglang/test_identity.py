"""A server is measured under its own name only; announced rewrites are no difference."""

from typing import Any

import pytest

from specbench.backends.sglang.identity import compare, contamination_of, running_requests_limit
from specbench.model.matrix import Level
from specbench.model.plan import LaunchSpec


def spec(
    speculative: bool = False, env: dict[str, str] | None = None, **flags: Level
) -> LaunchSpec:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return LaunchSpec(
        fingerprint="f",
        algorithm="eagle" if speculative else "ar",
        speculative=speculative,
        model_path="/models/target",
        served_name="tiny",
        flags=tuple(named.items()),
        env=tuple((env or {}).items()),
    )


# The fields of a real 0.5.23 server that are compared here.
PLAIN: dict[str, Any] = {
    "model_path": "/models/target",
    "served_model_name": "tiny",
    "speculative_algorithm": None,
    "speculative_num_steps": None,
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
    "max_running_requests": None,
    "tp_size": 1,
    "mem_fraction_static": 0.85,
    "page_size": 1,
    "internal_states": [{"effective_max_running_requests_per_dp": 4096}],
}
EAGLE = {
    **PLAIN,
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 8,
}
MODEL = {"model_path": "/models/target", "served_model_name": "tiny"}


def flags_of(asked: LaunchSpec, info: dict[str, Any], **other: Any) -> set[tuple[str, bool]]:
    return {(f.flag, f.fatal) for f in compare(asked, info, MODEL, **other)}


def test_the_server_that_was_asked_for_raises_no_doubt() -> None:
    asked = spec(True, speculative_algorithm="NEXTN", speculative_num_steps=3, tp=1, page_size="1")

    assert compare(asked, EAGLE, MODEL) == ()
    assert compare(spec(mem_fraction_static=0.85), PLAIN, MODEL) == ()


@pytest.mark.parametrize(
    ("asked", "running", "doubts"),
    [
        (spec(), EAGLE, {("args_mismatch", True)}),
        (spec(True, speculative_algorithm="EAGLE"), PLAIN, {("args_mismatch", True)}),
        (spec(True, speculative_algorithm="NGRAM"), EAGLE, {("args_mismatch", True)}),
        (
            spec(True, speculative_algorithm="EAGLE", speculative_num_draft_tokens=16),
            EAGLE,
            {("args_mismatch", True)},
        ),
        (spec(tp_size=8), PLAIN, {("args_mismatch", True)}),
        (spec(tp=8), PLAIN, {("args_mismatch", True)}),
        (spec(mem_fraction_static=0.7), PLAIN, {("args_mismatch", False)}),
    ],
)
def test_differences_are_found_and_those_of_the_factors_are_fatal(
    asked: LaunchSpec, running: dict[str, Any], doubts: set[tuple[str, bool]]
) -> None:
    assert flags_of(asked, running) == doubts


@pytest.mark.parametrize(
    ("asked", "running"),
    [
        (
            spec(True, speculative_algorithm="DFLASH", speculative_num_steps=7),
            {**EAGLE, "speculative_algorithm": "DFLASH", "speculative_num_steps": 1},
        ),
        (
            spec(True, speculative_algorithm="EAGLE", speculative_num_draft_tokens=16),
            {**EAGLE, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4},
        ),
        (
            spec(True, speculative_algorithm="NGRAM", speculative_eagle_topk=4),
            {**EAGLE, "speculative_algorithm": "NGRAM", "speculative_eagle_topk": 10},
        ),
    ],
)
def test_rewrites_that_the_server_announces_are_no_difference(
    asked: LaunchSpec, running: dict[str, Any]
) -> None:
    assert compare(asked, running, MODEL) == ()


@pytest.mark.parametrize("key", ["model_path", "served_model_name"])
def test_another_model_is_fatal(key: str) -> None:
    findings = compare(spec(), {}, {**MODEL, key: "other"})

    assert [(f.flag, f.fatal) for f in findings] == [("wrong_model", True)]
    assert "'other'" in findings[0].explanation


def test_lossy_thresholds_are_seen_also_when_they_were_changed_live() -> None:
    changed = {
        **EAGLE,
        "internal_states": [{"speculative_accept_threshold_acc": 0.9}],
    }

    assert flags_of(spec(True), changed) == {("lossy_thresholds", False)}


def test_a_cap_below_the_load_is_flagged_and_the_resolved_number_counts() -> None:
    capped = {
        **PLAIN,
        "max_running_requests": None,
        "internal_states": [{"effective_max_running_requests_per_dp": 48}] * 2,
    }

    assert running_requests_limit(capped) == 96
    assert flags_of(spec(), capped, concurrency=96) == set()
    assert flags_of(spec(), capped, concurrency=97) == {("server_capped_concurrency", False)}


@pytest.mark.parametrize(
    ("env", "flag"),
    [
        ({"SGLANG_SIMULATE_ACC_LEN": "3.5"}, "simulated_acceptance"),
        ({"SGLANG_NGRAM_FORCE_GREEDY_VERIFY": "true"}, "forced_greedy"),
    ],
)
def test_variables_that_falsify_a_measurement_are_found_wherever_they_are_set(
    env: dict[str, str], flag: str
) -> None:
    exposed = {**PLAIN, "internal_states": [{"env_vars": env}]}

    assert flags_of(spec(env=env), PLAIN) == {(flag, False)}
    assert flags_of(spec(), exposed) == {(flag, False)}


@pytest.mark.parametrize("value", ["", "-1", "0", "off"])
def test_a_simulation_switched_off_is_none(value: str) -> None:
    assert contamination_of({"SGLANG_SIMULATE_ACC_LEN": value}) == ()


def test_silence_of_the_server_is_not_judged() -> None:
    assert compare(spec(True, speculative_algorithm="EAGLE", tp_size=8), {}, {}) == ()


@pytest.mark.parametrize("states", [None, "x", [None], [[]], [{"env_vars": 3}]])
def test_malformed_server_info_upsets_nothing(states: object) -> None:
    assert compare(spec(), {**PLAIN, "internal_states": states}, MODEL) == ()
