"""End commands at random instants: is anything sealed lost, measured twice, or left running?

    python -m benchmarks.kills                              300 kills, a table at the end
    python -m benchmarks.kills --count 20 --only run --seed 7

Each kill starts a command against the embedded engine (`run` and `isolate` over a local host, `run`
over an SSH host with a detached server, `verify` of a running server, `report`), waits a random
while and sends SIGKILL, SIGTERM or SIGINT to the command alone. Then it is held that

- everything that was sealed (trials, answers of probes) is there and as it was,
- nothing was measured twice: no place in the design has two good trials,
- nothing of the command runs any more (a detached server may, until the next run ends it, where
  the command could not end it itself), no lock is held, and no traceback was printed.

The same command then goes on until nothing is left to do, and another folder is begun. The SSH host
is an sshd of its own on 127.0.0.1; where none is installed, its kills are not made and the table
says so. Exit status 1 on any failure.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.scenes import MARK, Isolate, Remote, Report, Run, Scene, Verify, wait_for
from specbench.errors import SpecbenchError

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDS_S = 90.0
SETTLES_S = 30.0
POLITE = {0, 1, 3, 5, 130}


SCENES: dict[str, tuple[type[Scene], float]] = {
    "run": (Run, 0.4),
    "remote": (Remote, 0.12),
    "isolate": (Isolate, 0.16),
    "verify": (Verify, 0.16),
    "report": (Report, 0.16),
}
"""Each scene's share of the kills."""


# ---- kills ---------------------------------------------------------------------------------------


def of_scene(mark: str) -> list[str]:
    """List the processes that carry a mark in their environment, by id and command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if words and "sshd" not in words:
                    found.append(f"{entry.name} {words[:90]}")
        except OSError:
            continue
    return found


def kill_once(
    scene: Scene, dice: random.Random, signals: Sequence[signal.Signals]
) -> tuple[signal.Signals | None, int, list[str]]:
    """Start the command and kill it; gives the signal (None: it had ended), status, problems."""
    process = scene.start()
    name = dice.choice(signals)
    try:
        process.wait(dice.uniform(0.05, scene.longest_s))
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
        process.send_signal(name)
    problems = []
    try:
        status = process.wait(ENDS_S if not ended else 1)
    except subprocess.TimeoutExpired:
        problems.append(f"did not end within {ENDS_S:.0f} s of {name.name}")
        process.kill()
        status = process.wait()
    polite = ended or name != signal.SIGKILL
    if ended and status not in POLITE:
        problems.append(f"exit status {status}")
    # CPython ends by SIGINT where an interrupt came inside an exec of text: 130 to a shell.
    if not ended and status not in (POLITE | {-name, -signal.SIGINT}):
        problems.append(f"exit status {status} after {name.name}")
    problems += [*_after(scene, polite=polite)]
    return (None if ended else name), status, problems


def _after(scene: Scene, *, polite: bool) -> Iterator[str]:
    if polite or not scene.detached:
        wait_for(lambda: not of_scene(scene.mark), SETTLES_S)
        yield from (f"left running: {one}" for one in of_scene(scene.mark))
    said = (scene.folder / "err").read_text(errors="replace")
    if "Traceback" in said and not _before_us(said):
        yield "traceback: " + " / ".join(said.strip().splitlines()[-6:])
    try:
        kept = scene.kept()
        yield from (f"lost: {one}" for one in scene.before - kept)
        scene.before = kept
        yield from scene.problems()
    except SpecbenchError as error:
        yield f"cannot be read: {error}"


def _before_us(said: str) -> bool:
    """Whether Ctrl-C came while Python itself was loading, before a line of the command ran."""
    first = ("specbench/__init__.py", "specbench/__main__.py", "cli/__init__.py", "cli/entry.py")
    frames = [line for line in said.splitlines() if "/specbench/" in line]
    early = all(any(name in line for name in first) for line in frames)
    return early and said.rstrip().endswith("KeyboardInterrupt")


def finish(scene: Scene) -> list[str]:
    """Let the command come to its end: nothing may be left then, detached or not."""
    process = scene.start()
    try:
        status = process.wait(280)
    except subprocess.TimeoutExpired:
        process.kill()
        return ["the last command does not end"]
    problems = [] if status in POLITE else [f"exit status {status} of the last command"]
    return problems + list(_after(scene, polite=True))


class Tally:
    """Kills by scene and signal, and what was wrong."""

    def __init__(self) -> None:
        self.kills: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    def blame(self, scene: Scene, when: str, problems: list[str]) -> None:
        self.failures += [f"{scene.name}, {when}: {problem}" for problem in problems]


def attack(
    kind: type[Scene],
    count: int,
    dice: random.Random,
    tally: Tally,
    *,
    most: int = 12,
    signals: Sequence[signal.Signals] = SIGNALS,
) -> None:
    """Kill one kind of command `count` times; each folder is finished after `most` kills or less.

    Commands that had ended before their kill are not counted.
    """
    kills = 0
    while kills < count:
        with tempfile.TemporaryDirectory() as name:
            scene = kind(Path(name))
            done = False
            try:
                for _ in range(min(most, count - kills)):
                    sent, status, problems = kill_once(scene, dice, signals)
                    when = sent.name if sent else "at its end"
                    tally.blame(scene, when, problems)
                    tally.kills[scene.name, when] += 1
                    kills += sent is not None
                    done = sent is None and scene.finished(status)
                    if done:
                        break
                tally.blame(scene, "going on", finish(scene))
            finally:
                scene.close()


def show(tally: Tally) -> None:
    columns = [*(one.name for one in SIGNALS), "at its end"]
    print(f"{'command':14}" + "".join(f"{name:>12}" for name in columns))
    for scene in dict.fromkeys(scene for scene, _ in tally.kills):
        print(f"{scene:14}" + "".join(f"{tally.kills[scene, name]:>12}" for name in columns))
    sent = sum(n for (_, when), n in tally.kills.items() if when != "at its end")
    print(f"{sent} kills, {len(tally.failures)} failures")
    print(*tally.failures[:60], sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=list(SCENES), default=list(SCENES))
    parser.add_argument(
        "--signals",
        nargs="*",
        choices=[one.name for one in SIGNALS],
        default=[one.name for one in SIGNALS],
    )
    options = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C; what is killed here must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals = [signal.Signals[name] for name in options.signals]
    tally, dice = Tally(), random.Random(options.seed)
    shares = {name: SCENES[name][1] for name in options.only}
    for name, share in shares.items():
        if name == "remote" and not shutil.which("sshd", path="/usr/sbin:/usr/local/sbin"):
            print("no sshd here: nothing is killed over SSH")
            continue
        count = round(options.count * share / sum(shares.values()))
        try:
            attack(SCENES[name][0], count, dice, tally, signals=signals)
        except KeyboardInterrupt:
            print("interrupted: what was done until then", file=sys.stderr)
            break
        print(f"{name}: {len(tally.failures)} failures so far", file=sys.stderr, flush=True)
    show(tally)
    sys.exit(1 if tally.failures else 0)


if __name__ == "__main__":
    main()
