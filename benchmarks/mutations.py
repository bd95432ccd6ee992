"""Damage every file of a recording in every way: is each command's answer the same, or is it said?

    python -m benchmarks.mutations                     1,000 mutations, a table at the end
    python -m benchmarks.mutations --count 50 --seed 7 --only journal

A recording of today is made of a kept one (nothing is started), one file of it is damaged, and the
commands that read recordings are asked again: `status`, `compare`, `plan` (what `run` would
measure), `verify`, the tables of the Python API and, for one mutation in ten, `report`. Each
command is the command line's own `main`, called in this process; `report`, which starts processes,
in a forked child.

A traceback, a command that does not end, an undocumented exit status, and an answer that differs
without naming the file and what can still be used are failures: exit status 1. The recording as it
was kept has no hashes: damage is named there only where it can be seen, so that silent changes are
counted apart and only tracebacks fail.
"""

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.damaged import Mutation, kept_as_it_is, mutations, recording_of_today
from specbench.recording import Recording

EXITS = frozenset({0, 1, 2, 3, 4, 5})
SECONDS = 120
ENDLESS, CRASHED = 70, 71
NAMED = ("can be used", "untouched", "restore it", "newer specbench")
"""What an answer that changed says beside the name of the file."""


class Answer(NamedTuple):
    """What a command said."""

    status: int
    out: str
    err: str


# ---- commands ------------------------------------------------------------------------------------


def commands(work: Path, root: Path) -> dict[str, list[str]]:
    """Name the commands that read a recording, as a person gives them."""
    results = ["--results", str(root.parent)]
    return {
        "status": ["status", *results, "--json"],
        "compare": ["compare", "ar", "ddtree", *results, "--json"],
        "plan": ["plan", str(work / "kept.yaml"), *results, "--json"],
        "verify": ["verify", str(root), "--json", "-"],
        "tables": ["tables", str(root)],
        "report": ["report", str(root), "-o", str(work / "report")],
    }


def ask(words: list[str], work: Path) -> Answer:
    """Run a command in this process as a person's shell would; `report` in a forked child."""
    if words[0] == "report":
        return _forked(words, work)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _be(words)
    return Answer(code, out.getvalue(), err.getvalue())


def _forked(words: list[str], work: Path) -> Answer:
    """Run a command that starts processes of its own; its status is -signal where one ended it."""
    out, err = work / "out", work / "err"
    child = os.fork()
    if child == 0:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = _be(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    said = out.read_text(errors="replace")
    if code == 0:
        said = (work / "report" / "findings.md").read_text(errors="replace")
    return Answer(code, said, err.read_text(errors="replace"))


def _be(words: list[str]) -> int:
    """Be that command; gives its exit status."""
    sys.argv = ["specbench", *words]
    signal.alarm(SECONDS)
    try:
        _tables(Path(words[1])) if words[0] == "tables" else _main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Endless:
        return ENDLESS
    except BaseException:  # noqa: BLE001 - it is what is looked for
        traceback.print_exc()
        return CRASHED
    finally:
        signal.alarm(0)
    return 0


class Endless(BaseException):
    """A command did not end in time."""


def _endless(*_: object) -> None:
    raise Endless


def _main() -> None:
    from specbench.cli.main import main  # noqa: PLC0415 - after argv and the streams are set

    main()


def _tables(root: Path) -> None:
    """Be a notebook that opens a recording and prints its tables, and what is wrong with it."""
    from specbench.errors import SpecbenchError  # noqa: PLC0415 - as above
    from specbench.workflows.api import open as open_recording  # noqa: PLC0415 - as above

    try:
        recording = open_recording(root)
        print(recording.trials.to_csv(), recording.requests.to_csv())
        print(*recording.damage, sep="\n")
    except SpecbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error


# ---- verdicts ------------------------------------------------------------------------------------


def judge(mutation: Mutation, before: Answer, after: Answer) -> str:
    """Say what is wrong with an answer: `traceback`, `endless`, `status`, `silent`, or nothing."""
    said = after.out + after.err
    if after.status == ENDLESS:
        return "endless"
    if "Traceback (most recent call last)" in said:
        return "traceback"
    if after.status not in EXITS:
        return "status"
    if (after.status, after.out) == (before.status, before.out):
        return ""
    return "" if _names(mutation.path, said) else "silent"


def _names(path: str, said: str) -> bool:
    """Whether the file, or the folder with all of it, is named, and what can still be used."""
    whole = path.split("/")
    names = ["/".join(whole[: n + 1]) for n in range(min(1, len(whole) - 1), len(whole))]
    flat = said.replace("\\_", "_").replace("\\/", "/")
    return any(name in flat for name in names) and any(word in flat for word in NAMED)


class Tally:
    """Counts, and the first failures of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    def take(self, command: str, mutation: Mutation, wrong: str, answer: Answer) -> None:
        self.counts[command, wrong or "right"] += 1
        if wrong:
            last = (answer.err.strip().splitlines() or [""])[-1]
            self.failures.append(f"{wrong}: {command}: {mutation.path} {mutation.kind}: {last}")
            print(self.failures[-1], file=sys.stderr, flush=True)

    def total(self, wrong: str) -> int:
        return sum(n for (_, kind), n in self.counts.items() if kind == wrong)


def attack(
    make: Callable[[Path], Path], *, count: int, seed: int, only: str = "", report_every: int = 10,
    progress: bool = False,
) -> Tally:  # fmt: skip
    """Damage the recording that `make` writes `count` times, and ask every command each time."""
    dice, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        whole = make(work / "whole")
        root = work / "results" / whole.name
        (work / "kept.yaml").write_text(Recording(whole).manifest.matrix)
        shutil.copytree(whole, root)
        asked = commands(work, root)
        before = {name: ask(words, work) for name, words in asked.items()}
        done = 0
        for mutation in mutations(whole, dice):
            if only and only not in mutation.path:
                continue
            shutil.rmtree(work / "results")
            shutil.copytree(whole, root)
            mutation.do(root)
            for command, words in asked.items():
                if command == "report" and done % report_every:
                    continue
                after = ask(words, work)
                tally.take(command, mutation, judge(mutation, before[command], after), after)
            done += 1
            if progress and done % 50 == 0:
                print(f"{done} mutations, {len(tally.failures)} wrong", file=sys.stderr, flush=True)
            if done == count:
                return tally
    raise AssertionError


def show(title: str, tally: Tally) -> None:
    kinds = ("right", "silent", "traceback", "endless", "status")
    print(f"{title}\n  {'command':10}" + "".join(f"{kind:>11}" for kind in kinds))
    for command in dict.fromkeys(command for command, _ in tally.counts):
        row = "".join(f"{tally.counts[command, kind]:>11}" for kind in kinds)
        print(f"  {command:10}{row}")


def preload() -> None:
    """Import what the commands need once, before a child forks."""
    import specbench.cli.main  # noqa: PLC0415
    import specbench.report.writing  # noqa: PLC0415
    import specbench.workflows.compare  # noqa: PLC0415
    import specbench.workflows.prepare  # noqa: PLC0415
    import specbench.workflows.verify_target  # noqa: F401, PLC0415


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="mutations of a recording of today")
    parser.add_argument("--old", type=int, default=200, help="mutations of one without hashes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose path holds this text")
    parser.add_argument("--report-every", type=int, default=10)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _endless)
    preload()
    wrong = 0
    for title, make, count in (
        ("a recording of today", recording_of_today, options.count),
        ("a recording of before there were hashes", kept_as_it_is, options.old),
    ):
        if not count:
            continue
        tally = attack(
            make, count=count, seed=options.seed, only=options.only,
            report_every=options.report_every, progress=True,
        )  # fmt: skip
        show(f"{count} mutations of {title}", tally)
        hashed = make is recording_of_today
        failed = [one for one in tally.failures if hashed or not one.startswith("silent")]
        wrong += len(failed)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
