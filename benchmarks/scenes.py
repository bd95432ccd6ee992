"""Commands in folders of their own, to be killed again and again until their work is done."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.damaged import recording_of_today
from specbench.recording import Recording, find_recordings
from specbench.recording.durable import read_journal
from specbench.recording.entries import TrialSealed
from specbench.recording.finding import lacking_manifests
from specbench.recording.lock import is_locked
from tests.e2e.command import MATRIX
from tests.e2e.test_stories import CHECK, PAIR
from tests.ports import free_port
from tests.remote.sshd import sshd

ROOT = Path(__file__).parents[1]
MARK = "SPECBENCH_KILLS"
"""A variable of the environment that every process of a command inherits."""


class Scene:
    """A command in a folder of its own, killed again and again until its work is done."""

    name = ""
    longest_s = 6.0
    """A kill comes at a random instant up to here."""

    detached = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self.environment = {**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT)}
        self.before: set[str] = set()

    def words(self) -> list[str]:
        raise NotImplementedError

    def kept(self) -> set[str]:
        """Name what is sealed: it must be there after every later kill."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        """Look for what must not be, after any kill."""
        raise NotImplementedError

    def finished(self, status: int) -> bool:
        """Whether a command that ended by itself has done all that there is to do."""
        return status == 0

    def start(self) -> "subprocess.Popen[bytes]":
        with (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "specbench", *self.words()],
                cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=err,
                start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """End what the scene itself started."""


class Run(Scene):
    """`run` of six trials on three servers."""

    name = "run"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        (folder / "m.yaml").write_text(MATRIX.replace("requests: 12", "requests: 16"))
        (folder / "hosts.yaml").write_text(f"hosts: {{here: {self.host()}}}\n")

    def host(self) -> str:
        return f"{{url: 'http://127.0.0.1:{self.port}'}}"

    def words(self) -> list[str]:
        return ["run", "m.yaml", "--hosts", "hosts.yaml", "--results", "R"]

    def kept(self) -> set[str]:
        roots = find_recordings(self.folder / "R")
        return {
            f"{root.name}/{one.trial.trial_id}/{one.requests_sha256}"
            for root in roots
            for one in Recording(root).sealed
        }

    def problems(self) -> Iterator[str]:
        roots = find_recordings(self.folder / "R")
        if len(roots) > 1:
            yield f"{len(roots)} recordings: one was begun anew"
        for root in roots:
            recording = Recording(root)
            yield from (str(one) for one in recording.damage if "does not list" not in one.what)
            good = Counter(one.trial.key for one in recording.sealed if one.status == "ok")
            yield from (f"measured twice: {key}" for key, times in good.items() if times > 1)
            lines = Counter(e.trial_id for e in recording.journal if isinstance(e, TrialSealed))
            yield from (f"listed twice: {name}" for name, times in lines.items() if times > 1)
            if is_locked(recording.paths):
                yield "the recording is still locked"
        for root in lacking_manifests(self.folder / "R"):
            shutil.rmtree(root)  # as `specbench status --clean` does: nothing is sealed there


class Remote(Run):
    """`run` over SSH: the server is detached, and the load is driven beside it."""

    name = "run over ssh"
    detached = True
    longest_s = 9.0

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        (folder / "home").mkdir()
        (folder / "sshd").mkdir()
        self._server = self._stack.enter_context(sshd(folder / "sshd"))
        super().__init__(folder)
        self.environment["SPECBENCH_SSH_CONFIG"] = str(self._server.config)
        marks = f"SetEnv {MARK}={self.mark} HOME={folder}/home PYTHONPATH={ROOT}\n"
        with (folder / "sshd" / "sshd_config").open("a") as file:
            file.write(marks)
        self._server.stop()
        self._server.start()

    def host(self) -> str:
        return (
            f"{{address: near, url: 'http://127.0.0.1:{self.port}', python: '{sys.executable}',"
            " drive_from: host}"
        )

    def close(self) -> None:
        self._stack.close()


class Isolate(Scene):
    """`isolate` of a pair of causes, with a probe of its own."""

    name = "isolate"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "m.yaml").write_text(PAIR)
        (folder / "check.py").write_text(CHECK)
        (folder / "hosts.yaml").write_text(
            f"hosts: {{here: {{url: 'http://127.0.0.1:{free_port()}'}}}}\n"
        )

    def words(self) -> list[str]:
        return [
            "isolate", "m.yaml", "--hosts", "hosts.yaml", "--results", "R", "--probes", "2",
            "--good", "budget == 7 and topk == 1 and fault == none",
            "--bad", "budget == 15 and topk == 4 and fault == 'sibling-visible-mask'",
            "--command", f"{sys.executable} check.py {{url}}",
        ]  # fmt: skip

    def _answers(self) -> list[str]:
        files = sorted((self.folder / "R").glob("**/isolate-*.jsonl"))
        return [json.dumps(entry, sort_keys=True) for file in files for entry in read_journal(file)]

    def kept(self) -> set[str]:
        return set(self._answers())

    def problems(self) -> Iterator[str]:
        asked = Counter(json.loads(line)["question"] for line in self._answers())
        yield from (f"asked {n} times: {q}" for q, n in asked.items() if n > 2 * 2)


class Verify(Scene):
    """`verify` of a server that runs anyway, and must run on."""

    name = "verify"
    longest_s = 8.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{free_port()}"
        words = ["--model-path", "embedded", "--port", self.url.rpartition(":")[2]]
        words += ["--time-scale", "0", "--load-seconds", "0.1"]
        self._engine = subprocess.Popen(
            [sys.executable, "-m", "specbench.engine", *words, "--speculative-algorithm", "DFLASH"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self._answers, 90)

    def words(self) -> list[str]:
        return ["verify", "--url", self.url, "--budget", "quick", "--json", "v.json"]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/model_info", timeout=10):  # noqa: S310
                return True
        except OSError:
            return False

    def kept(self) -> set[str]:
        return set()

    def problems(self) -> Iterator[str]:
        if not self._answers():
            yield "the server that was verified does not answer any more"

    def finished(self, _: int) -> bool:
        return False  # there is no end: it is verified again

    def close(self) -> None:
        self._engine.terminate()
        self._engine.wait(30)


class Report(Scene):
    """`report` of a recording, which it only reads."""

    name = "report"
    longest_s = 7.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = recording_of_today(folder / "R")

    def words(self) -> list[str]:
        return ["report", str(self.root), "-o", "report"]

    def kept(self) -> set[str]:
        return {one.requests_sha256 for one in Recording(self.root).sealed}

    def problems(self) -> Iterator[str]:
        yield from map(str, Recording(self.root).damage)
        for name, end in (("findings.html", "</html>"), ("findings.md", "|\n")):
            file = self.folder / "report" / name
            if file.exists() and not file.read_text().rstrip(" ").endswith((end, end + "\n")):
                yield f"{name} is not whole"

    def finished(self, _: int) -> bool:
        return False  # as above


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
