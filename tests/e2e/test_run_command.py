"""The command as a user types it, against the embedded engine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.recording import Recording, find_recordings

pytestmark = pytest.mark.e2e

MATRIX = """\
name: e2e
model: {{path: embedded, served_name: embedded}}
hosts: [here]
factors:
  algorithm: [ar, dflash, ddtree]
  budget: 7
  topk: 1
  temperature: 0.0
  concurrency: [1, 4]
server:
  command: ["{{python}}", -m, specbench.engine]
  flags: {{time-scale: 0.0, load-seconds: 0.5}}
workload: {{requests: 12, max_tokens: 48, api: {api}}}
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def write_files(folder: Path) -> Path:
    (folder / "m.yaml").write_text(MATRIX.format(api="chat"))
    url = f"http://127.0.0.1:{free_port()}"
    (folder / "hosts.yaml").write_text(f"hosts: {{here: {{url: '{url}'}}}}\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run that came to its end, and the document that it printed."""
    folder = write_files(tmp_path_factory.mktemp("finished"))
    run = specbench(folder, "run", "--json")
    assert run.returncode == 0, run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    return folder, document


def command(folder: Path, *words: str) -> list[str]:
    files = ["m.yaml", "--hosts", "hosts.yaml", "--results", "R"]
    return [sys.executable, "-m", "specbench", words[0], *files, *words[1:]]


def specbench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *words),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def sealings(recording: Recording) -> list[str]:
    return sorted(
        entry["trial_id"] for entry in recording.journal if entry["kind"] == "trial_sealed"
    )


def sealed_in(folder: Path) -> list[str]:
    found = find_recordings(folder / "R") if (folder / "R").exists() else []
    return sealings(Recording(found[0])) if found else []


def engines_of(folder: Path) -> list[int]:
    """Processes whose command line names this test's port: servers that a run left behind."""
    port = (folder / "hosts.yaml").read_text().rsplit(":", 1)[1].split("'")[0]
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"specbench.engine" in words and port.encode() in words:
            found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_matrix_becomes_a_table_and_a_plot(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, document = finished

    rows = {(row["algorithm"], row["concurrency"]): row for row in document["rows"]}
    assert len(rows) == document["measured"] == 6
    for concurrency in (1, 4):
        assert rows["ar", concurrency]["accept_len"] == 1.0
        assert rows["dflash", concurrency]["accept_len"] > 1.5
        chain, tree = (rows[name, concurrency]["accept_len"] for name in ("dflash", "ddtree"))
        assert tree == pytest.approx(chain, rel=0.02)
    assert all(Path(folder, path).exists() for path in document["plots"])
    assert engines_of(folder) == []


def test_the_same_command_measures_nothing_again(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished

    again = specbench(folder, "run")

    assert again.returncode == 0
    assert "nothing to measure: all 6 trials" in again.stdout


def test_greedy_outputs_of_all_arms_are_identical(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished

    (root,) = find_recordings(folder / "R")
    requests = Recording(root).requests
    measured = requests[requests["phase"] == "measured"]
    texts = measured.groupby("prompt_id")["output_sha256"].nunique()
    assert len(texts) >= 12
    assert (texts == 1).all()


def test_a_run_killed_half_way_and_repeated_seals_each_trial_exactly_once(folder: Path) -> None:
    run = subprocess.Popen(
        command(folder, "run"), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: len(sealed_in(folder)) >= 3 or run.poll() is not None, 120)
    run.kill()
    run.wait()
    sealed = sealed_in(folder)
    assert 3 <= len(sealed) < 6
    wait_for(lambda: not engines_of(folder), 20)
    assert engines_of(folder) == []

    again = specbench(folder, "run")

    assert again.returncode == 0, again.stderr
    (root,) = find_recordings(folder / "R")
    after = sealings(Recording(root))
    assert len(after) == len(set(after)) == 6
    assert set(sealed) <= set(after)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_leaves_no_server(folder: Path, name: int) -> None:
    run = subprocess.Popen(
        command(folder, "run"), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: bool(engines_of(folder)), 60)
    os.kill(run.pid, name)
    _, said = run.communicate(timeout=60)

    assert run.returncode == 130
    assert "the same command resumes" in said
    assert engines_of(folder) == []


def test_a_port_in_use_is_found_before_anything_starts(folder: Path) -> None:
    port = int((folder / "hosts.yaml").read_text().rsplit(":", 1)[1].split("'")[0])
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()

        run = specbench(folder, "run")

    assert run.returncode == 4
    assert str(port) in run.stderr
    assert engines_of(folder) == []


def test_a_server_that_cannot_load_is_diagnosed_and_the_others_are_measured(folder: Path) -> None:
    matrix = (folder / "m.yaml").read_text()
    (folder / "m.yaml").write_text(
        matrix + "algorithms: {dflash: {flags: {speculative-nonsense: 3}}}\n"
    )

    run = specbench(folder, "run", "--json")

    assert run.returncode == 3, run.stderr
    document = json.loads(run.stdout)
    assert document["failed"] == 2
    assert document["measured"] == 4
    assert "speculative-nonsense" in run.stderr


def test_wrong_input_is_two_lines_and_status_2(folder: Path) -> None:
    (folder / "m.yaml").write_text(MATRIX.format(api="chat").replace("budget:", "bugdet:"))

    run = specbench(folder, "run")

    assert run.returncode == 2
    assert "m.yaml:6:3" in run.stderr
    assert "did you mean 'budget'" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (folder / "R").exists()


def test_plan_and_dry_run_start_nothing(folder: Path) -> None:
    planned = specbench(folder, "plan", "--json")
    dry = specbench(folder, "run", "--dry-run")

    assert json.loads(planned.stdout)["launches"] == 3
    assert "3 launches, 6 trials to measure" in dry.stdout
    assert not (folder / "R").exists()
