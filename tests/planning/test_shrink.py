from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from specbench.model.matrix import Level
from specbench.planning.search_terms import ProbeVerdict
from specbench.planning.shrink import Shrink, shrink

SETTINGS: dict[str, Level] = {
    "requests": 200,
    "max_tokens": 512,
    "temperature": 0.6,
    "top_k": -1,
    "concurrency": 16,
}


def play(state: Shrink, probe: Callable[[Mapping[str, Level]], ProbeVerdict]) -> Shrink:
    while (settings := state.next_probe()) is not None:
        state = state.update(probe(settings))
    return state


def test_a_fault_that_always_shows_shrinks_to_the_cheapest_probe() -> None:
    end = play(shrink(SETTINGS), lambda _: "fails")

    assert end.settings == {
        "requests": 8,
        "max_tokens": 32,
        "temperature": 0.0,
        "top_k": 1,
        "concurrency": 1,
    }
    assert end.needed == ()


def test_what_the_fault_needs_is_kept_and_named() -> None:
    end = play(
        shrink(SETTINGS),
        lambda s: "fails" if s["concurrency"] != 1 and s["temperature"] else "passes",
    )

    assert end.settings["concurrency"] == 2
    assert end.settings["temperature"] == 0.6
    assert {(s.factor, s.level) for s in end.needed} == {("concurrency", 1), ("temperature", 0.0)}


@given(st.lists(st.sampled_from(["fails", "passes", "inconclusive"]), min_size=12, max_size=12))
def test_settings_are_always_the_last_ones_that_failed(verdicts: list[ProbeVerdict]) -> None:
    state = shrink(SETTINGS)
    failing: Mapping[str, Level] = SETTINGS

    for verdict in verdicts:
        settings = state.next_probe()
        if settings is None:
            break
        state = state.update(verdict)
        failing = settings if verdict == "fails" else failing

    assert state.settings == failing


def test_a_factor_that_the_probe_does_not_know_is_left_alone() -> None:
    end = play(shrink({"requests": 64}), lambda _: "fails")

    assert end.settings == {"requests": 8}


def test_a_probe_is_never_made_dearer() -> None:
    assert shrink({"requests": 4, "concurrency": 1, "temperature": 0.0}).next_probe() is None
