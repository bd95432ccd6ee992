"""Servers that fail in every way: each ends in recorded rows and a reason, never in a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import MATRIX, engines_on, only_recording, specbench, wait_for, write_files

pytestmark = pytest.mark.e2e


def one_cell(fault: str) -> str:
    return (
        MATRIX.replace("[ar, dflash, ddtree]", "[ar]")
        .replace("concurrency: [1, 4]", "concurrency: 4")
        .replace("load-seconds: 0.5", f"load-seconds: 0.5, fault: {fault}")
        .replace("requests: 12", "requests: 24, request_timeout_s: 4")
    )


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        ("http-500", {"http_5xx"}),
        ("cut-stream", {"closed_early"}),
        ("error-event", {"error_event"}),
        ("endless-stream", {"timeout", "stalled"}),
        ("zombie", {"timeout", "no_first_byte", "stalled"}),
    ],
)
def test_failed_requests_are_rows_and_too_many_of_them_fail_the_trial(
    tmp_path: Path, fault: str, reasons: set[str]
) -> None:
    port = write_files(tmp_path, one_cell(fault), host=", stop_timeout_s: 3")

    run = specbench(tmp_path, "run", "--json")

    assert run.returncode == 3, run.stderr
    assert "Traceback" not in run.stderr
    recording = only_recording(tmp_path)
    requests = recording.requests
    failed = requests[requests["status"] != "ok"]
    assert len(failed) > 0
    assert set(failed["reason"]) & reasons
    (row,) = recording.trials.to_dict("records")
    assert row["n_failed"] > 0
    assert "requests failed" in row["reason"] or "succeeded" in row["reason"]
    assert engines_on(port) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("oom-graphs", "out of memory"),
        ("no-kv-room", "mem-fraction-static"),
        ("warmup-fails", "warm"),
        ("crash-under-load", "exception"),
        ("native-crash", "crashed"),
    ],
)
def test_a_server_that_dies_is_diagnosed_with_its_last_lines(
    tmp_path: Path, fault: str, said: str
) -> None:
    port = write_files(tmp_path, one_cell(fault))

    run = specbench(tmp_path, "run", "--json")

    assert run.returncode == 3, run.stderr
    assert said in run.stderr
    assert "server.log" in run.stderr
    assert 'Traceback (most recent call last):\n  File "specbench' not in run.stderr
    assert json.loads(run.stdout)["failed"] == 1
    assert engines_on(port) == []


def test_a_flag_that_the_server_does_not_know_fails_its_cells_only(tmp_path: Path) -> None:
    port = write_files(
        tmp_path, MATRIX + "algorithms: {dflash: {flags: {speculative-nonsense: 3}}}\n"
    )

    run = specbench(tmp_path, "run", "--json")

    assert run.returncode == 3, run.stderr
    document = json.loads(run.stdout)
    assert (document["failed"], document["measured"]) == (2, 4)
    assert "speculative-nonsense" in run.stderr
    assert engines_on(port) == []


def test_a_running_server_with_another_model_is_not_measured(tmp_path: Path) -> None:
    port = write_files(tmp_path, one_cell("").replace(", fault: ", ""), host=", launcher: attach")
    argv = [sys.executable, "-m", "specbench.engine", "--model-path", "other", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([*argv, "--time-scale", "0"], stdout=log, stderr=log)
    try:
        wait_for(lambda: "ready to roll" in (tmp_path / "log").read_text(), 60)

        run = specbench(tmp_path, "run", "--json")

        assert run.returncode == 3, run.stderr
        assert "other" in run.stderr
        assert server.poll() is None
    finally:
        server.terminate()
        server.wait(20)
