import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.stats_isolate import CAUSES, simulate
from specbench.errors import InputError
from specbench.planning.causes import Configuration
from specbench.planning.isolate import Search
from specbench.planning.probe_noise import Counts
from specbench.planning.search_forecast import forecast
from specbench.planning.search_start import start
from specbench.planning.search_terms import Answer, Candidate, Options

NAMES = "abcdefgh"


def candidates(count: int, weights: list[float] | None = None) -> list[Candidate]:
    odds = weights or [1.0] * count
    return [Candidate(name=NAMES[i], good=0, bad=1, weight=odds[i]) for i in range(count)]


def play(search: Search, cause: Configuration, lies: frozenset[int] = frozenset()) -> Answer:
    """Answer every probe by the truth, except the ones whose number is in `lies`."""
    for number in itertools.count():
        step = search.next_probe()
        if isinstance(step, Answer):
            return step
        fails = (cause <= step) != (number in lies)
        search = search.update(step, "fails" if fails else "passes")
    raise AssertionError


causes = st.integers(1, 8).flatmap(
    lambda k: st.tuples(st.just(k), st.sets(st.sampled_from(NAMES[:k]), min_size=1, max_size=2))
)


@given(causes, st.lists(st.floats(0.5, 4), min_size=8, max_size=8))
def test_singles_and_pairs_are_found_when_no_verdict_errs(
    case: tuple[int, set[str]], weights: list[float]
) -> None:
    count, cause = case

    answer = play(start(candidates(count, weights)), frozenset(cause))

    assert answer.conclusive
    assert set(answer.causes) == cause
    assert answer.probability >= 0.95


@given(causes, st.sets(st.integers(0, 12)))
def test_a_search_ends_whatever_the_verdicts(case: tuple[int, set[str]], lies: set[int]) -> None:
    count, cause = case

    answer = play(start(candidates(count)), frozenset(cause), frozenset(lies))

    assert answer.launches <= Options().most_launches


DOUBTFUL = Options(unexplained=0.2)


def test_a_cause_of_three_factors_is_not_sold_as_a_pair() -> None:
    answer = play(start(candidates(3), DOUBTFUL), frozenset("abc"))

    assert answer.suspects[0].kind == "triple"
    assert answer.conclusive


def test_a_probe_that_fails_on_the_good_server_too_is_said() -> None:
    answer = play(start(candidates(4), DOUBTFUL), frozenset())

    assert answer.suspects[0].kind == "always"
    assert answer.causes == ()


def test_one_wrong_verdict_is_survived() -> None:
    answer = play(start(candidates(6)), frozenset("be"), lies=frozenset({1}))

    assert set(answer.causes) == {"b", "e"}


def test_equal_searches_ask_the_same_questions() -> None:
    first, again = (start(candidates(5)).next_probe() for _ in range(2))

    assert first == again


def test_the_likelier_suspect_is_tried_first() -> None:
    search = start(candidates(4, [1, 1, 50, 1]), Options(pair_share=0.05))

    step = search.next_probe()

    assert not isinstance(step, Answer)
    assert "c" in step or step == frozenset("abd")


def test_configurations_that_no_server_can_run_are_never_asked_for() -> None:
    search = start(candidates(4), can_launch=lambda c: "a" not in c or "b" in c)
    asked = set()

    while not isinstance(step := search.next_probe(), Answer):
        asked.add(step)
        search = search.update(step, "fails" if "b" in step else "passes")

    assert all("a" not in c or "b" in c for c in asked)
    assert step.causes == ("b",)


def test_factors_that_cannot_be_told_apart_end_without_a_conclusion() -> None:
    search = start(candidates(2), can_launch=lambda c: len(c) in (0, 2))

    answer = play(search, frozenset("a"))

    assert not answer.conclusive
    assert {s.causes for s in answer.suspects[:3]} >= {("a",), ("b",)}


def test_a_factor_that_exists_only_beside_another_stands_for_both() -> None:
    search = start(candidates(3), can_launch=lambda c: "a" not in c or "b" in c)

    answer = play(search, frozenset("ab"))

    assert answer.conclusive
    assert answer.causes == ("a",)


def test_dearer_configurations_are_avoided_at_equal_information() -> None:
    search = start(candidates(2), minutes=lambda c: 60.0 if "a" in c else 1.0)

    assert search.next_probe() == frozenset("b")


def test_an_undecided_probe_teaches_nothing_and_is_not_asked_at_once_again() -> None:
    search = start(candidates(4))
    step = search.next_probe()
    assert not isinstance(step, Answer)

    after = search.update(step, "inconclusive")

    assert after.next_probe() != step
    assert list(after.belief) == list(search.belief)
    assert len(after.tried) == 1


def test_a_probe_that_never_decides_ends_at_the_bound() -> None:
    search = start(candidates(3), Options(most_launches=7))

    while not isinstance(step := search.next_probe(), Answer):
        search = search.update(step, "inconclusive")

    assert (step.conclusive, step.launches) == (False, 7)


def test_the_forecast_is_what_the_search_then_needs() -> None:
    search = start(candidates(6))

    expected = forecast(search)

    needed = [
        play(search, frozenset(c)).launches
        for size in (1, 2)
        for c in itertools.combinations(NAMES[:6], size)
    ]
    assert min(needed) <= expected.mean_launches <= expected.most_launches
    assert max(needed) <= expected.most_launches
    assert expected.mean_minutes == pytest.approx(9.0 * expected.mean_launches)


def test_a_single_candidate_is_checked_against_the_good_server_only() -> None:
    search = start(candidates(1))

    launched = []
    while not isinstance(step := search.next_probe(), Answer):
        launched.append(step)
        search = search.update(step, "passes")

    assert set(launched) == {frozenset()}
    assert step.conclusive
    assert step.causes == ("a",)


@pytest.mark.parametrize(
    "wrong",
    [[], candidates(2) + candidates(1), [Candidate(name="a", good=0, bad=1, weight=-1.0)]],
    ids=["none", "twice", "negative weight"],
)
def test_impossible_candidates_are_refused(wrong: list[Candidate]) -> None:
    with pytest.raises(InputError):
        start(wrong)


def test_many_candidates_are_searched_without_enumerating_them() -> None:
    many = [Candidate(name=f"flag{i}", good=0, bad=1) for i in range(16)]

    answer = play(start(many), frozenset({"flag3", "flag12"}))

    assert answer.causes == ("flag12", "flag3")


laws = st.lists(
    st.frozensets(st.sampled_from(NAMES[:5]), min_size=1, max_size=4), min_size=1, max_size=4
)


def minimal(sets: list[Configuration]) -> set[Configuration]:
    return {one for one in sets if not any(other < one for other in sets)}


@given(laws)
@settings(max_examples=60)
def test_an_answer_names_every_minimal_failing_set_and_no_other(sets: list[Configuration]) -> None:
    search = start(candidates(5))

    while not isinstance(step := search.next_probe(), Answer):
        failed = any(one <= step for one in sets)
        search = search.update(step, "fails" if failed else "passes")

    named = {frozenset(one) for one in step.suspects[0].sets}
    assert named == minimal(sets) or not step.conclusive


@given(causes)
def test_every_configuration_that_an_answer_speaks_of_was_launched(
    case: tuple[int, set[str]],
) -> None:
    count, cause = case
    search = start(candidates(count))

    while not isinstance(step := search.next_probe(), Answer):
        search = search.update(step, "fails" if cause <= step else "passes")

    launched = {tried.configuration for tried in search.tried} | {search.space.bad}
    assert step.checks
    assert all(check.confirmed for check in step.checks)
    assert all(frozenset(check.bad) in launched for check in step.checks)
    assert all((cause <= set(check.bad)) == check.fails for check in step.checks)


@pytest.mark.parametrize("cause", ["single", "pair", "triple", "A or B", "four factors"])
def test_causes_with_a_law_are_named_when_no_probe_errs(cause: str) -> None:
    row = simulate(6, cause, 40, probe=0.0)

    assert (row.right, row.wrong) == (1.0, 0.0)


def test_a_pair_of_eight_factors_takes_ten_launches() -> None:
    row = simulate(8, "pair", 60, probe=0.0)

    assert row.right == 1.0
    assert row.launches <= 10


@pytest.mark.parametrize("cause", list(CAUSES))
def test_a_probe_that_passes_half_the_time_is_not_confidently_wrong(cause: str) -> None:
    row = simulate(6, cause, 40, probe=0.5)

    assert row.wrong <= 0.05


@pytest.mark.parametrize("cause", [name for name in CAUSES if "no hypothesis" in name])
def test_a_cause_that_is_no_hypothesis_is_left_open_before_the_bound(cause: str) -> None:
    row = simulate(6, cause, 30, probe=0.0)

    assert row.open == 1.0
    assert row.launches_max < Options().most_launches


def test_a_configuration_that_fails_in_one_launch_only_is_told() -> None:
    search = start(candidates(4))
    for verdict in ("fails", "passes", "fails", "passes"):
        search = search.update(frozenset("a"), verdict)

    answer = search.next_probe()

    assert isinstance(answer, Answer)
    assert (answer.conclusive, answer.reason) == (False, "differs by launch")
    assert "bad a failed in one launch and passed in another" in answer.why


def test_a_cured_factor_is_not_sold_as_a_pair() -> None:
    row = simulate(6, "A unless (B without C)", 40, probe=0.0)

    assert row.wrong == 0.0


def test_few_failures_where_the_bad_server_always_fails_decide_nothing() -> None:
    search = start(candidates(4)).update(frozenset("abcd"), Counts(asked=8, failed=8))

    assert search.verdict(Counts(asked=8, failed=1)) == "inconclusive"
    assert search.verdict(Counts(asked=8, failed=5)) == "fails"
    assert search.verdict(Counts(asked=8)) == "passes"


def test_a_launch_ends_at_a_failure_that_decides_and_else_after_all_probes() -> None:
    search = start(candidates(4)).update(frozenset("abcd"), Counts(asked=8, failed=8))

    assert search.enough(Counts(asked=1, failed=1))
    assert not search.enough(Counts(asked=7))
    assert search.enough(Counts(asked=8))


def test_a_known_probe_error_makes_passes_count_for_less() -> None:
    sure, unsure = (
        start(candidates(4), Options(probe_error=error)).update(frozenset("ab"), "passes")
        for error in (0.0, 0.7)
    )

    assert unsure.belief[0] < sure.belief[0] or unsure.belief[2] < sure.belief[2]


def test_more_second_looks_are_more_launches() -> None:
    launches = [
        play(start(candidates(5), Options(second_looks=looks)), frozenset("ac")).launches
        for looks in (0, 2, 4)
    ]

    assert launches == sorted(set(launches))


def test_an_answer_that_no_server_can_confirm_is_left_open() -> None:
    search = start(candidates(4), can_launch=lambda c: c != frozenset("a"))

    answer = play(search, frozenset("ab"))

    assert not answer.conclusive
    assert "no server can run bad a" in answer.why
