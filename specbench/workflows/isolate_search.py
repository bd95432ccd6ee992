"""Find which factors turn a good server into a bad one: shrink the probe, then launch."""

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import msgspec

from specbench.errors import InputError
from specbench.planning.causes import Configuration
from specbench.planning.isolate import Search
from specbench.planning.probe_noise import Counts, fewest
from specbench.planning.search_forecast import ROUGHLY, forecast
from specbench.planning.search_start import start
from specbench.planning.search_terms import Answer, Candidate, Options, ProbeVerdict
from specbench.planning.shrink import FreeFactor, Shrink, shrink
from specbench.workflows.isolate_events import (
    Asked,
    Finding,
    IsolateEvent,
    Judged,
    Launching,
    Planned,
)
from specbench.workflows.isolate_journal import Answered, Memory, Settings, journal_path
from specbench.workflows.isolate_wording import (
    largest_passing,
    reading,
    smallest_failing,
    would_decide,
)

EXIT_INCONCLUSIVE = 5

MOST_UNDECIDED = 2
"""So many probes without a verdict end a launch."""

BAD_LAUNCHES = 2
"""The bad server is refused when it passed in so many launches."""

MISSED = 0.05
"""A cheaper probe counts as passing when a failing one would be missed so rarely."""

DEAR = 2.0
"""Probes are dear when those of a launch take so many times the launch itself."""

MISSED_WHEN_DEAR = 0.005
"""Then fewer are asked, as long as a failing configuration is missed so rarely."""

AS_SURE = 0.75
"""The cheaper probe must fail at least so often, beside the one that it replaces."""

FORECAST_EACH_LAUNCH = 8
"""Up to so many factors the forecast is made anew after every launch."""


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe said; `note` is its evidence in a few words, `gone` that the server died."""

    verdict: ProbeVerdict
    note: str = ""
    gone: bool = False


Probe = Callable[[Settings], Probed]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: the factors that differ, how a configuration is launched, what is asked.

    `running(configuration)` launches a server with those factors at their bad level and gives the
    probe of it; a server that does not come up gives a probe that says so. `settings` are the
    probe's free factors as the bad cell has them, `free` those that may be made cheaper.
    `thrifty` allows fewer probes than the options have where they would take longer than the
    launches. `cost_known` is false where the options' minutes of a launch are only a guess.
    """

    name: str
    candidates: tuple[Candidate, ...]
    running: Callable[[Configuration], AbstractContextManager[Probe]]
    probe: str
    settings: Settings
    free: tuple[FreeFactor, ...] = ()
    can_launch: Callable[[Configuration], bool] = lambda _: True
    minutes: Callable[[Configuration], float] | None = None
    options: Options = field(default_factory=Options)
    cost_known: bool = True
    thrifty: bool = False

    @property
    def bad(self) -> Configuration:
        """The bad server."""
        return frozenset(candidate.name for candidate in self.candidates)


def isolate(case: Case, folder: Path) -> Generator[IsolateEvent, None, None]:
    """Search; the last event is the Finding. Interrupted, the same call goes on where it was.

    Raises:
        InputError: nothing differs, or the probe passes on the bad server.
        RecordingError: the journal cannot be written.
    """
    search = start(case.candidates, case.options, can_launch=case.can_launch, minutes=case.minutes)
    yield _planned(case, search)
    path = journal_path(folder, case.name, case.candidates, case.probe, case.settings)
    with Memory(path) as memory:
        shrunk, counts, passed = yield from _bad_server(case, memory)
        for one in (*passed, counts):
            search = search.update(case.bad, one)
        search = _priced(search, memory, case)
        yield _judged(search, case.bad, counts, "", looks_ahead=True)
        while not isinstance(step := search.next_probe(), Answer):
            search = yield from _launch(case, search, step, shrunk.settings, memory)
        yield _finding(case, step, search, shrunk, memory, counts)


def _planned(case: Case, search: Search) -> Planned:
    expected = forecast(search)
    minutes = search.cost(case.bad) + expected.mean_minutes
    return Planned(
        candidates=case.candidates,
        probe=case.probe,
        probes=case.options.probes,
        forecast=expected,
        launches=1 + expected.mean_launches,
        minutes=minutes if case.cost_known else None,
    )


def _bad_server(
    case: Case, memory: Memory
) -> Generator[IsolateEvent, None, tuple[Shrink, Counts, list[Counts]]]:
    """Launch the bad server, once more if it passes: what differs by launch is no wrong input."""
    passed: list[Counts] = []
    for _ in range(BAD_LAUNCHES):
        with _Session(case, case.bad, memory) as session:
            counts = yield from session.count(case.settings, case.options.probes)
            if counts.failed:
                return *(yield from _shrink(case, session, counts)), passed
        if not counts.asked:
            break
        passed.append(counts)
    said = f"passes, in {len(passed)} launches" if passed else "inconclusive"
    raise InputError(
        f"the bad cell does not fail the probe ({case.probe}): {said}",
        hint="isolation needs a probe that fails on --bad and passes on --good",
    )


def _shrink(
    case: Case, session: "_Session", counts: Counts
) -> Generator[IsolateEvent, None, tuple[Shrink, Counts]]:
    """Make the probe cheaper by its free factors, all on one launch of the bad server."""
    if session.gone:
        return shrink(case.settings, ()), counts
    probes = case.options.probes
    state, enough = shrink(case.settings, case.free), fewest([counts], probes, None, MISSED)
    while (settings := state.next_probe()) is not None:
        if session.gone:
            break
        state = state.update((yield from session.first_failure(settings, enough)))
    if state.settings == dict(case.settings):
        return state, counts
    again = yield from session.count(state.settings, probes)
    as_sure = again.failed * counts.asked >= AS_SURE * counts.failed * again.asked
    if again.failed and as_sure:
        return state, again
    return shrink(case.settings, ()), counts


def _launch(
    case: Case, search: Search, step: Configuration, settings: Settings, memory: Memory
) -> Generator[IsolateEvent, None, Search]:
    """Launch a configuration, ask until its probes decide, and learn from them."""
    undecided, counts, note = 0, Counts(), ""
    with _Session(case, step, memory) as session:
        while not search.enough(counts) and undecided < MOST_UNDECIDED and not session.gone:
            asked = yield from session.ask(settings)
            note = asked.note
            if asked.verdict == "inconclusive":
                undecided += 1
            else:
                counts = counts.and_one(fails=asked.verdict == "fails")
    if undecided and not counts.failed:
        counts = Counts()  # a launch passes only when all of its probes do
    after = _priced(search.update(step, counts), memory, case)
    looks_ahead = len(case.candidates) <= FORECAST_EACH_LAUNCH
    yield _judged(after, step, counts, note, looks_ahead=looks_ahead)
    return after


def _priced(search: Search, memory: Memory, case: Case) -> Search:
    """Price the launches to come by those of this search, and ask less where probes are dear."""
    search = replace(search, options=_options(search, memory, case))
    if case.minutes is not None:
        return search
    now = max(memory.launch_minutes + memory.probe_minutes * search.options.probes, 1e-3)
    return replace(search, minutes=search.minutes * (now / float(search.minutes.min())))


def _options(search: Search, memory: Memory, case: Case) -> Options:
    most = case.options.probes
    if not case.thrifty or memory.probe_minutes * most <= DEAR * memory.launch_minutes:
        return case.options
    failing = [tried.counts for tried in search.tried if tried.counts.failed]
    probes = fewest(failing, most, case.options.probe_error, MISSED_WHEN_DEAR)
    return msgspec.structs.replace(case.options, probes=probes)


def _judged(
    search: Search, step: Configuration, counts: Counts, note: str, *, looks_ahead: bool
) -> Judged:
    left = forecast(search, ROUGHLY) if looks_ahead else None
    return Judged(
        bad=tuple(sorted(step)),
        verdict=search.tried[-1].verdict,
        counts=counts,
        note=note,
        launches_left=left.mean_launches if left else None,
        minutes_left=left.mean_minutes if left else None,
    )


class _Session:
    """Probes of one launch: the server is started only when the journal cannot answer."""

    def __init__(self, case: Case, configuration: Configuration, memory: Memory) -> None:
        self.case = case
        self.configuration = configuration
        self.memory = memory
        self.launch = memory.begin(configuration)
        self.stack = ExitStack()
        self.probe: Probe | None = None
        self.gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def count(self, settings: Settings, probes: int) -> Generator[IsolateEvent, None, Counts]:
        """Ask so many times, or until the server is gone or nothing is said."""
        counts, undecided = Counts(), 0
        while counts.asked < probes and undecided < MOST_UNDECIDED and not self.gone:
            asked = yield from self.ask(settings, shrinking=True)
            if asked.verdict == "inconclusive":
                undecided += 1
            else:
                counts = counts.and_one(fails=asked.verdict == "fails")
        return counts

    def first_failure(
        self, settings: Settings, probes: int
    ) -> Generator[IsolateEvent, None, ProbeVerdict]:
        """Ask until one fails; passing takes all of them."""
        for _ in range(probes):
            asked = yield from self.ask(settings, shrinking=True)
            if asked.verdict != "passes":
                return asked.verdict
        return "passes"

    def ask(
        self, settings: Settings, *, shrinking: bool = False
    ) -> Generator[IsolateEvent, None, Answered]:
        known = self.memory.recall(self.configuration, self.launch, settings)
        answer = known or (yield from self._measured(settings))
        self.gone = answer.gone
        yield Asked(
            bad=tuple(sorted(self.configuration)),
            settings=dict(settings),
            verdict=answer.verdict,
            note=answer.note,
            minutes=answer.minutes,
            cached=known is not None,
            shrinking=shrinking,
        )
        return answer

    def _measured(self, settings: Settings) -> Generator[IsolateEvent, None, Answered]:
        clock = time.monotonic()
        launched = self.probe is None
        if self.probe is None:
            yield Launching(bad=tuple(sorted(self.configuration)))
            self.probe = self.stack.enter_context(self.case.running(self.configuration))
        up = time.monotonic()
        probed = self.probe(settings)
        answer = Answered(
            verdict=probed.verdict,
            note=probed.note,
            minutes=(time.monotonic() - clock) / 60,
            launched=launched,
            launch_minutes=(up - clock) / 60,
            gone=probed.gone,
        )
        self.memory.store(self.configuration, self.launch, settings, answer)
        return answer


def _more_launches(search: Search) -> float:
    """Expect how many launches beyond the bound an answer would take."""
    most = len(search.tried) + search.options.most_launches
    options = msgspec.structs.replace(search.options, most_launches=most)
    return forecast(replace(search, options=options), ROUGHLY).mean_launches


def _finding(
    case: Case, answer: Answer, search: Search, shrunk: Shrink, memory: Memory, counts: Counts
) -> Finding:
    levels = {c.name: (c.good, c.bad) for c in case.candidates}
    top = answer.suspects[0]
    flaky = counts.failed < counts.asked
    more = _more_launches(search) if answer.reason == "bound" else None
    said = (
        f"; the probe is flaky: it failed {counts.failed} of {counts.asked} times" if flaky else ""
    )
    return Finding(
        conclusive=answer.conclusive,
        kind=top.kind,
        causes={name: levels[name] for name in top.causes},
        sets=top.sets,
        cure=top.cure,
        probability=top.probability,
        reason=answer.reason,
        why=answer.why,
        reading=reading(answer, levels, said + (" on the bad server" if flaky else "")),
        would_decide=would_decide(answer, more),
        more_launches=more,
        checks=answer.checks,
        suspects=answer.suspects[:5],
        smallest_failing=tuple(smallest_failing(search.tried)),
        largest_passing=tuple(largest_passing(search.tried)),
        probe=case.probe,
        probes=search.options.probes,
        bad_server=counts,
        flaky=flaky,
        differs_by_launch=answer.differs,
        settings=dict(shrunk.settings),
        needed=shrunk.needed,
        launches=memory.launches,
        minutes=memory.minutes,
        journal=str(memory.path),
        exit_status=0 if answer.conclusive else EXIT_INCONCLUSIVE,
    )
