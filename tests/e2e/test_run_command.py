"""The command as a user types it, against the embedded engine."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.command import (
    MATRIX,
    command,
    engines_on,
    only_recording,
    sealed_in,
    specbench,
    wait_for,
    write_files,
)

pytestmark = pytest.mark.e2e


class Finished(NamedTuple):
    """A run that came to its end, and the document that it printed."""

    folder: Path
    port: int
    document: dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    port = write_files(folder)
    run = specbench(folder, "run", "--json")
    assert run.returncode == 0, run.stderr
    return Finished(folder, port, json.loads(run.stdout))


def test_a_matrix_becomes_a_table_and_a_plot(finished: Finished) -> None:
    document = finished.document

    rows = {(row["algorithm"], row["concurrency"]): row for row in document["rows"]}
    assert len(rows) == document["measured"] == 6
    for concurrency in (1, 4):
        assert rows["ar", concurrency]["accept_len"] == 1.0
        assert rows["dflash", concurrency]["accept_len"] > 1.5
        chain, tree = (rows[name, concurrency]["accept_len"] for name in ("dflash", "ddtree"))
        assert tree == pytest.approx(chain, rel=0.02)
    assert all((finished.folder / path).exists() for path in document["plots"])
    assert engines_on(finished.port) == []


def test_the_same_command_measures_nothing_again(finished: Finished) -> None:
    again = specbench(finished.folder, "run")

    assert again.returncode == 0
    assert "nothing to measure: all 6 trials" in again.stdout


def test_greedy_outputs_of_all_arms_are_identical(finished: Finished) -> None:
    requests = only_recording(finished.folder).requests

    measured = requests[requests["phase"] == "measured"]
    texts = measured.groupby("prompt_id")["output_sha256"].nunique()
    assert len(texts) >= 12
    assert (texts == 1).all()


def test_status_tells_a_finished_run_from_another_process(finished: Finished) -> None:
    state = subprocess.run(
        [*command("status")[:3], "status", "--results", "R", "--json"],
        cwd=finished.folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    document = json.loads(state.stdout)
    assert (document["running"], document["ok"], document["failed"]) == (False, 6, 0)


def test_a_run_killed_half_way_and_repeated_seals_each_trial_exactly_once(tmp_path: Path) -> None:
    port = write_files(tmp_path)
    run = subprocess.Popen(
        command("run"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: len(sealed_in(tmp_path)) >= 3 or run.poll() is not None, 120)
    run.kill()
    run.wait()
    sealed = sealed_in(tmp_path)
    assert 3 <= len(sealed) < 6
    wait_for(lambda: not engines_on(port), 20)
    assert engines_on(port) == []

    again = specbench(tmp_path, "run")

    assert again.returncode == 0, again.stderr
    after = sealed_in(tmp_path)
    assert len(after) == len(set(after)) == 6
    assert after[: len(sealed)] == sealed


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_leaves_no_server(tmp_path: Path, name: int) -> None:
    port = write_files(tmp_path)
    run = subprocess.Popen(
        command("run"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: bool(engines_on(port)), 60)
    os.kill(run.pid, name)
    _, said = run.communicate(timeout=60)

    assert run.returncode == 130
    assert "the same command resumes" in said
    assert engines_on(port) == []


def test_a_port_in_use_is_found_before_anything_starts(tmp_path: Path) -> None:
    port = write_files(tmp_path)
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()

        run = specbench(tmp_path, "run")

    assert run.returncode == 4
    assert str(port) in run.stderr
    assert engines_on(port) == []


def test_wrong_input_is_a_place_a_rule_and_status_2(tmp_path: Path) -> None:
    write_files(tmp_path, MATRIX.replace("budget:", "bugdet:"))

    run = specbench(tmp_path, "run")

    assert run.returncode == 2
    assert "m.yaml:6:3" in run.stderr
    assert "did you mean 'budget'" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "R").exists()


def test_plan_and_dry_run_start_nothing(tmp_path: Path) -> None:
    write_files(tmp_path)

    planned = specbench(tmp_path, "plan", "--json")
    dry = specbench(tmp_path, "run", "--dry-run")

    assert json.loads(planned.stdout)["launches"] == 3
    assert "3 launches, 6 trials to measure" in dry.stdout
    assert not (tmp_path / "R").exists()
