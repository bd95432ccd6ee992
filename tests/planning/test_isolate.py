import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import InputError
from specbench.planning.causes import Configuration
from specbench.planning.isolate import Search
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
