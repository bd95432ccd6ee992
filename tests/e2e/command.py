"""Run specbench as a user does, and see what it leaves behind."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from specbench.recording import Recording, find_recordings
from specbench.recording.entries import TrialSealed
from tests.ports import free_port

MATRIX = """\
name: e2e
model: {path: embedded, served_name: embedded}
hosts: [here]
factors:
  algorithm: [ar, dflash, ddtree]
  budget: 7
  topk: 1
  temperature: 0.0
  concurrency: [1, 4]
server:
  command: ["{python}", -m, specbench.engine]
  flags: {time-scale: 0.0, load-seconds: 0.5}
workload: {requests: 12, max_tokens: 48}
"""


def write_files(folder: Path, matrix: str = MATRIX, host: str = "") -> int:
    """Write m.yaml and hosts.yaml; returns the port that the host serves on."""
    port = free_port()
    (folder / "m.yaml").write_text(matrix)
    entry = f"{{url: 'http://127.0.0.1:{port}'{host}}}"
    (folder / "hosts.yaml").write_text(f"hosts: {{here: {entry}}}\n")
    return port


def command(*words: str) -> list[str]:
    files = ["m.yaml", "--hosts", "hosts.yaml", "--results", "R"]
    return [sys.executable, "-m", "specbench", words[0], *files, *words[1:]]


def specbench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )


def only_recording(folder: Path) -> Recording:
    (root,) = find_recordings(folder / "R")
    return Recording(root)


def sealed_in(folder: Path) -> list[str]:
    """Trials in the order in which the journal says that they were sealed."""
    found = find_recordings(folder / "R") if (folder / "R").exists() else []
    journal = Recording(found[0]).journal if found else []
    return [entry.trial_id for entry in journal if isinstance(entry, TrialSealed)]


def engines_on(port: int) -> list[int]:
    """Engine processes whose command line names the port: servers that a run left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"specbench.engine" in words and str(port).encode() in words:
            found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
