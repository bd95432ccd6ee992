import json
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from specbench.errors import InputError
from specbench.planning.causes import Configuration
from specbench.planning.probe_noise import Counts
from specbench.planning.search_terms import Candidate, Options
from specbench.planning.shrink import FreeFactor
from specbench.workflows.isolate_events import (
    Asked,
    Finding,
    IsolateEvent,
    Judged,
    Launching,
    Planned,
)
from specbench.workflows.isolate_journal import Settings
from specbench.workflows.isolate_search import Case, Probe, Probed, isolate

NAMES = ("code", "budget", "topk", "page", "backend")


class Lab:
    """Servers of which those fail that hold `cause`, when concurrency is at least `needs`."""

    def __init__(
        self, cause: str, needs: int = 2, *, passing: float = 0.0, sound: Container[int] = ()
    ) -> None:
        self.cause = frozenset(cause.split())
        self.needs = needs
        self.passing = passing
        self.sound = sound
        self.random = Random(4)
        self.launched: list[Configuration] = []
        self.probes = 0
        self.stop_after: int | None = None

    @contextmanager
    def running(self, configuration: Configuration) -> Iterator[Probe]:
        broken = self.cause <= configuration and len(self.launched) not in self.sound
        self.launched.append(configuration)

        def probe(settings: Settings) -> Probed:
            if self.probes == self.stop_after:
                raise KeyboardInterrupt
            self.probes += 1
            loaded = int(str(settings["concurrency"])) >= self.needs
            fails = loaded and broken and self.random.random() >= self.passing
            return Probed(verdict="fails" if fails else "passes", note="looked")

        yield probe

    def case(self, options: Options | None = None) -> Case:
        return Case(
            options=options or Options(),
            name="a 'strange'\nname",
            candidates=tuple(Candidate(name=name, good="old", bad="new") for name in NAMES),
            running=self.running,
            probe="it breaks",
            settings={"requests": 64, "concurrency": 16},
            free=(
                FreeFactor(name="requests", levels=(8,)),
                FreeFactor(name="concurrency", levels=(1, 2)),
            ),
        )


def finding(events: list[IsolateEvent]) -> Finding:
    last = events[-1]
    assert isinstance(last, Finding)
    return last


def test_new_code_and_new_budget_together_are_named_as_a_pair(tmp_path: Path) -> None:
    lab = Lab("code budget")

    found = finding(list(isolate(lab.case(), tmp_path)))

    assert found.kind == "pair"
    assert found.causes == {"budget": ("old", "new"), "code": ("old", "new")}
    assert found.probability >= 0.95
    assert "neither alone" in found.reading
    assert found.exit_status == 0
    assert found.launches == len(lab.launched)


def test_the_plan_and_its_cost_come_before_the_first_launch(tmp_path: Path) -> None:
    events = isolate(Lab("topk").case(), tmp_path)

    first = next(events)

    assert isinstance(first, Planned)
    assert first.launches == pytest.approx(1 + first.forecast.mean_launches)
    assert first.minutes is not None
    assert first.forecast.mean_minutes is not None
    assert first.minutes > first.forecast.mean_minutes


def test_free_factors_cost_one_launch_and_shrink_the_probe(tmp_path: Path) -> None:
    lab = Lab("topk", needs=2)

    events = list(isolate(lab.case(Options(probes=1)), tmp_path))

    before_the_second = events[: [i for i, e in enumerate(events) if isinstance(e, Launching)][1]]
    found = finding(events)
    assert sum(isinstance(e, Asked) for e in before_the_second) == 5
    assert found.settings == {"requests": 8, "concurrency": 2}
    assert [(s.factor, s.level) for s in found.needed] == [("concurrency", 1)]


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path) -> None:
    lab = Lab("code budget")
    whole = list(isolate(Lab("code budget").case(), tmp_path / "whole"))
    lab.stop_after = 7
    with pytest.raises(KeyboardInterrupt):
        list(isolate(lab.case(), tmp_path))
    again = Lab("code budget")

    resumed = list(isolate(again.case(), tmp_path))

    cached = [e for e in resumed if isinstance(e, Asked) and e.cached]
    assert len(cached) == 7
    assert len(lab.launched) + len(again.launched) <= finding(whole).launches + 1
    assert finding(resumed).causes == finding(whole).causes


def test_a_finished_search_is_answered_from_the_journal(tmp_path: Path) -> None:
    first = finding(list(isolate(Lab("page").case(), tmp_path)))
    lab = Lab("page")

    again = finding(list(isolate(lab.case(), tmp_path)))

    assert lab.launched == []
    assert (again.causes, again.launches) == (first.causes, first.launches)


def test_another_question_never_reads_the_same_journal(tmp_path: Path) -> None:
    list(isolate(Lab("page").case(), tmp_path))
    other = Lab("topk")

    found = finding(list(isolate(_renamed(other.case()), tmp_path)))

    assert found.causes == {"topk": ("old", "new")}
    assert other.launched


def _renamed(case: Case) -> Case:
    return Case(
        name=case.name,
        candidates=case.candidates,
        running=case.running,
        probe="another probe",
        settings=case.settings,
        free=case.free,
    )


def test_a_probe_that_passes_on_the_bad_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not fail the probe"):
        list(isolate(Lab("code", needs=99).case(), tmp_path))


def test_what_could_not_be_decided_is_asked_again(tmp_path: Path) -> None:
    lab = Lab("code")
    case = lab.case()

    @contextmanager
    def dead(_: Configuration) -> Iterator[Probe]:
        yield lambda _: Probed(verdict="inconclusive", note="did not load")

    broken = Case(
        name=case.name,
        candidates=case.candidates,
        running=dead,
        probe=case.probe,
        settings=case.settings,
        free=case.free,
    )
    with pytest.raises(InputError, match="inconclusive"):
        list(isolate(broken, tmp_path))

    found = finding(list(isolate(case, tmp_path)))

    assert found.causes == {"code": ("old", "new")}


def test_names_of_files_are_tame(tmp_path: Path) -> None:
    found = finding(list(isolate(Lab("code").case(), tmp_path)))

    assert Path(found.journal).parent == tmp_path
    assert "\n" not in found.journal
    assert "'" not in Path(found.journal).name


def test_three_factors_are_named_and_every_server_of_the_sentence_was_launched(
    tmp_path: Path,
) -> None:
    lab = Lab("code budget page")

    found = finding(list(isolate(lab.case(), tmp_path)))

    assert (found.kind, found.exit_status) == ("triple", 0)
    assert set(found.causes) == {"code", "budget", "page"}
    assert "not without any one of them" in found.reading
    assert {frozenset(check.bad) for check in found.checks} <= set(lab.launched)
    assert all(check.confirmed for check in found.checks)


def test_a_flaky_probe_is_told_beside_the_right_answer(tmp_path: Path) -> None:
    found = finding(list(isolate(Lab("code budget", passing=0.5).case(), tmp_path)))

    assert set(found.causes) == {"code", "budget"}
    assert found.flaky
    assert 0 < found.bad_server.failed < found.bad_server.asked
    assert f"it failed {found.bad_server.failed} of {found.bad_server.asked} times" in found.reading


@pytest.mark.parametrize("sound", [range(2, 99, 3), range(0, 99, 2)])
def test_what_differs_by_launch_is_left_open_and_says_what_would_decide(
    tmp_path: Path, sound: range
) -> None:
    case = Lab("code", sound=sound).case(Options(second_looks=4))

    found = finding(list(isolate(case, tmp_path)))

    assert (found.conclusive, found.exit_status) == (False, 5)
    assert "not decided" in found.reading
    assert "still possible" in found.reading
    assert found.would_decide


def test_a_bad_server_that_comes_up_sound_once_is_told_as_differing_by_launch(
    tmp_path: Path,
) -> None:
    found = finding(list(isolate(Lab("code", sound={0}).case(), tmp_path)))

    assert found.reason == "differs by launch"
    assert "failed in one launch and passed in another" in found.reading


def test_probes_of_one_launch_cost_no_second_one(tmp_path: Path) -> None:
    lab = Lab("topk")

    events = list(isolate(lab.case(Options(probes=5)), tmp_path))

    passed = [e for e in events if isinstance(e, Judged) and e.verdict == "passes"]
    assert passed
    assert all(judged.counts.asked == 5 for judged in passed)
    assert sum(isinstance(e, Judged) for e in events) == len(lab.launched)


def test_the_forecast_after_the_first_launch_is_of_this_run(tmp_path: Path) -> None:
    case = replace(Lab("topk").case(), cost_known=False)

    events = list(isolate(case, tmp_path))

    planned, *_ = events
    first = next(e for e in events if isinstance(e, Judged))
    assert isinstance(planned, Planned)
    assert planned.minutes is None
    assert first.launches_left is not None
    assert first.minutes_left is not None
    assert first.minutes_left < 0.1 * first.launches_left


def test_a_search_that_stops_at_its_bound_names_the_launches_that_are_missing(
    tmp_path: Path,
) -> None:
    found = finding(list(isolate(Lab("code budget").case(Options(most_launches=6)), tmp_path)))

    assert (found.reason, found.exit_status) == ("bound", 5)
    assert found.more_launches
    assert f"about {found.more_launches:.0f} more launches" in found.would_decide


def test_a_server_that_dies_of_the_probe_is_not_asked_further(tmp_path: Path) -> None:
    lab = Lab("code")

    @contextmanager
    def mortal(configuration: Configuration) -> Iterator[Probe]:
        with lab.running(configuration) as probe:
            yield lambda settings: dying(probe(settings))

    events = list(isolate(replace(lab.case(), running=mortal), tmp_path))

    found = finding(events)
    assert found.causes == {"code": ("old", "new")}
    assert found.settings == lab.case().settings
    assert found.bad_server == Counts(asked=1, failed=1)


def dying(probed: Probed) -> Probed:
    return Probed(verdict=probed.verdict, gone=probed.verdict == "fails")


def test_a_journal_of_the_form_without_launches_is_still_read(tmp_path: Path) -> None:
    found = finding(list(isolate(Lab("code").case(), tmp_path)))
    journal = Path(found.journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        line["question"] = json.dumps(json.loads(line["question"])[:2])
        line["answer"] = {k: line["answer"][k] for k in ("verdict", "note", "minutes", "launched")}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lab = Lab("code")

    again = finding(list(isolate(lab.case(), tmp_path)))

    assert again.causes == found.causes
    assert len(lab.launched) <= 1  # the second look at one configuration is a launch of its own


def test_probes_that_take_longer_than_launches_are_asked_less_where_all_fail(
    tmp_path: Path,
) -> None:
    case = Lab("code").case()
    journal = Path(finding(list(isolate(case, tmp_path))).journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        line["answer"] |= {"minutes": 1.0, "launch_minutes": 0.01}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))

    events = list(isolate(replace(case, thrifty=True), tmp_path))

    passed = [e for e in events if isinstance(e, Judged) and e.verdict == "passes"]
    assert finding(events).causes == {"code": ("old", "new")}
    assert finding(events).bad_server == Counts(asked=8, failed=8)
    assert {judged.counts.asked for judged in passed} == {3}
