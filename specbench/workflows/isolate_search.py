"""Find which factor, or pair, turns a good server into a bad one: shrink the probe, then launch."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec

from specbench.errors import InputError
from specbench.model.matrix import Level
from specbench.planning.isolate import (
    Answer,
    Candidate,
    Configuration,
    Forecast,
    Options,
    ProbeVerdict,
    Suspect,
    forecast,
    start,
)
from specbench.planning.shrink import FreeFactor, Shrink, ShrinkStep, shrink
from specbench.recording.durable import Journal, read_journal

EXIT_INCONCLUSIVE = 5

Settings = Mapping[str, Level]


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe said; `note` is its evidence in a few words."""

    verdict: ProbeVerdict
    note: str = ""


Probe = Callable[[Settings], Probed]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: the factors that differ, how a configuration is launched, what is asked.

    `running(configuration)` launches a server with those factors at their bad level and gives the
    probe of it; a server that does not come up gives a probe that says so. `settings` are the
    probe's free factors as the bad cell has them, `free` those that may be made cheaper.
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


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="planned"):
    """Before anything is launched: the candidates, the first steps and the expected cost.

    `launches` and `minutes` include the launch of the bad server on which the probe is shrunk.
    """

    candidates: tuple[Candidate, ...]
    probe: str
    forecast: Forecast
    launches: float
    minutes: float


class Launching(msgspec.Struct, frozen=True, kw_only=True, tag="launching"):
    """A server is about to be started with these factors at their bad level."""

    bad: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """A probe was answered; `cached` from the journal of an earlier, interrupted search."""

    bad: tuple[str, ...]
    settings: dict[str, Level]
    verdict: ProbeVerdict
    note: str
    minutes: float
    cached: bool


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag="finding"):
    """The answer, and the probe that shows it.

    `causes` maps each factor to its good and bad level. `needed` are changes of the probe under
    which the bad server passed. `launches` counts servers started by this call and earlier ones.
    """

    schema: int = 1
    conclusive: bool
    kind: str
    causes: dict[str, tuple[Level, Level]]
    probability: float
    why: str
    reading: str
    suspects: tuple[Suspect, ...]
    probe: str
    settings: dict[str, Level]
    needed: tuple[ShrinkStep, ...]
    launches: int
    minutes: float
    journal: str
    exit_status: int


IsolateEvent = Planned | Launching | Asked | Finding


def isolate(case: Case, folder: Path) -> Generator[IsolateEvent, None, None]:
    """Search; the last event is the Finding. Interrupted, the same call goes on where it was.

    Raises:
        InputError: nothing differs, or the probe passes on the bad server.
        RecordingError: the journal cannot be written.
    """
    search = start(case.candidates, case.options, can_launch=case.can_launch, minutes=case.minutes)
    expected = forecast(search)
    bad = frozenset(candidate.name for candidate in case.candidates)
    one = case.minutes(bad) if case.minutes else search.options.launch_minutes
    yield Planned(
        candidates=case.candidates,
        probe=case.probe,
        forecast=expected,
        launches=1 + expected.mean_launches,
        minutes=one + expected.mean_minutes,
    )
    with _Memory(case, folder) as memory:
        shrunk = yield from _shrink(case, bad, memory)
        while not isinstance(step := search.next_probe(), Answer):
            asked = yield from _ask(case, step, shrunk.settings, memory)
            search = search.update(step, asked)
        yield _finding(case, step, shrunk, memory)


def _shrink(
    case: Case, bad: Configuration, memory: "_Memory"
) -> Generator[IsolateEvent, None, Shrink]:
    """Free factors first, all on one launch of the bad server."""
    with _Session(case, bad, memory) as session:
        verdict = yield from session.ask(case.settings)
        if verdict != "fails":
            raise InputError(
                f"the bad cell does not fail the probe ({case.probe}): {verdict}",
                hint="isolation needs a probe that fails on --bad and passes on --good",
            )
        state = shrink(case.settings, case.free)
        while (settings := state.next_probe()) is not None:
            state = state.update((yield from session.ask(settings)))
        if state.settings != dict(case.settings):
            # One verdict in fifty is wrong: the cheap probe must fail twice to be used.
            again = yield from session.ask(state.settings)
            if again != "fails":
                return shrink(case.settings, ())
        return state


def _ask(
    case: Case, configuration: Configuration, settings: Settings, memory: "_Memory"
) -> Generator[IsolateEvent, None, ProbeVerdict]:
    with _Session(case, configuration, memory) as session:
        return (yield from session.ask(settings))


class _Session:
    """Probes of one configuration: launched only when the journal cannot answer."""

    def __init__(self, case: Case, configuration: Configuration, memory: "_Memory") -> None:
        self.case = case
        self.configuration = configuration
        self.memory = memory
        self.stack = ExitStack()
        self.probe: Probe | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def ask(self, settings: Settings) -> Generator[IsolateEvent, None, ProbeVerdict]:
        bad = tuple(sorted(self.configuration))
        known = self.memory.recall(self.configuration, settings)
        if known is not None:
            yield _asked(bad, settings, known, cached=True)
            return known.verdict
        clock = time.monotonic()
        launched = self.probe is None
        if self.probe is None:
            yield Launching(bad=bad)
            self.probe = self.stack.enter_context(self.case.running(self.configuration))
        probed = self.probe(settings)
        answer = _Answered(
            verdict=probed.verdict,
            note=probed.note,
            minutes=(time.monotonic() - clock) / 60,
            launched=launched,
        )
        self.memory.store(self.configuration, settings, answer)
        yield _asked(bad, settings, answer, cached=False)
        return probed.verdict


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    verdict: ProbeVerdict
    note: str
    minutes: float
    launched: bool


class _Memory:
    """Every verdict, durable.

    Equal questions are answered in the order they were asked: a second launch of the same
    configuration is new evidence, not a look-up.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self.path = folder / f"isolate-{_slug(case.name)}-{_fingerprint(case)}.jsonl"
        self.past: dict[str, list[_Answered]] = defaultdict(list)
        self.launches = 0
        self.minutes = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        for entry in read_journal(self.path) if self.path.exists() else ():
            answer = msgspec.convert(entry["answer"], _Answered)
            if answer.verdict != "inconclusive":  # what could not be decided is asked again
                self.past[str(entry["question"])].append(answer)
        self.journal = Journal(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    def recall(self, configuration: Configuration, settings: Settings) -> _Answered | None:
        waiting = self.past[_question(configuration, settings)]
        if not waiting:
            return None
        self._count(waiting[0])
        return waiting.pop(0)

    def store(self, configuration: Configuration, settings: Settings, answer: _Answered) -> None:
        question = _question(configuration, settings)
        self.journal.append({"question": question, "answer": msgspec.to_builtins(answer)})
        self._count(answer)

    def _count(self, answer: _Answered) -> None:
        self.launches += answer.launched
        self.minutes += answer.minutes


def _question(configuration: Configuration, settings: Settings) -> str:
    return json.dumps([sorted(configuration), dict(settings)], sort_keys=True)


def _fingerprint(case: Case) -> str:
    """Identify the question, so that a journal never answers another one."""
    content = [msgspec.to_builtins(case.candidates), case.probe, dict(case.settings)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]


def _asked(bad: tuple[str, ...], settings: Settings, answer: _Answered, *, cached: bool) -> Asked:
    return Asked(
        bad=bad,
        settings=dict(settings),
        verdict=answer.verdict,
        note=answer.note,
        minutes=answer.minutes,
        cached=cached,
    )


def _finding(case: Case, answer: Answer, shrunk: Shrink, memory: _Memory) -> Finding:
    levels = {c.name: (c.good, c.bad) for c in case.candidates}
    top = answer.suspects[0]
    causes = {name: levels[name] for name in top.causes} if top.kind != "always" else {}
    return Finding(
        conclusive=answer.conclusive,
        kind=top.kind,
        causes=causes,
        probability=top.probability,
        why=answer.why,
        reading=_reading(answer, causes),
        suspects=answer.suspects[:5],
        probe=case.probe,
        settings=dict(shrunk.settings),
        needed=shrunk.needed,
        launches=memory.launches,
        minutes=memory.minutes,
        journal=str(memory.path),
        exit_status=0 if answer.conclusive else EXIT_INCONCLUSIVE,
    )


def _reading(answer: Answer, causes: Mapping[str, Sequence[Level]]) -> str:
    """Say the answer in a sentence."""
    shown = [f"{name} ({good} -> {bad})" for name, (good, bad) in causes.items()]
    sure = f"probability {answer.probability:.3f}"
    if not answer.conclusive:
        return f"not decided: {answer.why}; the likeliest is {' with '.join(shown)}, {sure}"
    match answer.suspects[0].kind:
        case "single":
            return f"{shown[0]} alone turns good into bad, {sure}"
        case "pair":
            return f"{shown[0]} together with {shown[1]}, neither alone, {sure}"
        case "always":
            return f"the probe fails on the good server too, {sure}: it shows no difference"
        case _:
            return f"no single factor and no pair explains it: it needs three or more, {sure}"
