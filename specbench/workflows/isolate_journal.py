"""What a search for the cause remembers: every probe's answer, by launch, durable."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from specbench.model.matrix import Level
from specbench.planning.causes import Configuration
from specbench.planning.search_terms import Candidate, ProbeVerdict
from specbench.recording.durable import Journal, read_journal

Settings = Mapping[str, Level]


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One probe's answer. `launched` says that a server was started for it.

    `minutes` is the time it took, of which `launch_minutes` went into the start.
    """

    verdict: ProbeVerdict
    note: str
    minutes: float
    launched: bool
    launch_minutes: float = 0.0
    gone: bool = False


class Memory:
    """Every answer of one search, kept in a journal: the same search again is not measured again.

    Answers belong to a launch: the second launch of a configuration is new evidence, not a
    look-up of the first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._past: dict[str, list[Answered]] = defaultdict(list)
        self._begun: dict[Configuration, int] = defaultdict(int)
        self._used: list[Answered] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._read()
        self._journal = Journal(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def begin(self, configuration: Configuration) -> int:
        """Count one more launch of a configuration in this search; return its number."""
        self._begun[configuration] += 1
        return self._begun[configuration]

    def recall(
        self, configuration: Configuration, launch: int, settings: Settings
    ) -> Answered | None:
        """Give the next answer that an earlier, interrupted search had from this launch."""
        waiting = self._past[_question(configuration, launch, settings)]
        if not waiting:
            return None
        self._used.append(waiting[0])
        return waiting.pop(0)

    def store(
        self, configuration: Configuration, launch: int, settings: Settings, answer: Answered
    ) -> None:
        """Write an answer down before the next step."""
        question = _question(configuration, launch, settings)
        self._journal.append({"question": question, "answer": msgspec.to_builtins(answer)})
        self._used.append(answer)

    @property
    def launches(self) -> int:
        """Servers started for this search, by this call and earlier ones."""
        return sum(answer.launched for answer in self._used)

    @property
    def minutes(self) -> float:
        """Time spent on them and on their probes."""
        return sum(answer.minutes for answer in self._used)

    @property
    def launch_minutes(self) -> float:
        """Mean time of a start, without probes."""
        starts = [answer.launch_minutes for answer in self._used if answer.launched]
        return sum(starts) / len(starts) if starts else 0.0

    @property
    def probe_minutes(self) -> float:
        """Mean time of a probe on a running server."""
        probes = [answer.minutes - answer.launch_minutes for answer in self._used]
        return sum(probes) / len(probes) if probes else 0.0

    def _read(self) -> None:
        for entry in read_journal(self.path) if self.path.exists() else ():
            answer = msgspec.convert(entry["answer"], Answered)
            if answer.verdict != "inconclusive":  # what could not be decided is asked again
                self._past[_by_launch(str(entry["question"]))].append(answer)


def journal_path(
    folder: Path, name: str, candidates: Sequence[Candidate], probe: str, settings: Settings
) -> Path:
    """Name the journal of a question, so that it never answers another one."""
    content = [msgspec.to_builtins(candidates), probe, dict(settings)]
    mark = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    tame = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]
    return folder / f"isolate-{tame}-{mark}.jsonl"


def _question(configuration: Configuration, launch: int, settings: Settings) -> str:
    return json.dumps([sorted(configuration), dict(settings), launch], sort_keys=True)


def _by_launch(question: str) -> str:
    """Read a question; journals from before launches were numbered have one launch of each."""
    content: list[Any] = json.loads(question)
    return question if len(content) > 2 else json.dumps([*content, 1], sort_keys=True)
