"""Pictures are the same whoever draws them, and a worker that dies costs no picture."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from benchmarks.report_speed import write_recording
from specbench.report.figures import Drawings, Picture
from tests.report.synthetic import clean, grid, interleaved

pytestmark = pytest.mark.process

REPORT = """
import os, sys
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[:1] if sys.argv.pop(1) == "one" else cores)
from specbench.cli.main import main
main()
"""


def _report(recording: Path, folder: Path, cores: str) -> dict[str, bytes]:
    words = [sys.executable, "-c", REPORT, cores, "report", str(recording), "-o", str(folder)]
    subprocess.run(words, check=True, capture_output=True, timeout=240)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen on Linux only")
def test_a_report_drawn_on_all_cores_is_the_one_drawn_on_a_single_core(tmp_path: Path) -> None:
    write_recording(tmp_path / "recording", trials=12, requests=6)

    alone = _report(tmp_path / "recording", tmp_path / "alone", "one")
    shared = _report(tmp_path / "recording", tmp_path / "shared", "all")

    assert {"findings.html", "plots/r0-speedup-dark.png"} <= set(alone)
    assert alone == shared


def test_a_picture_whose_worker_was_killed_is_drawn_here() -> None:
    evidence = clean(interleaved(grid(temperatures=(0.0,), replicates=1)))
    lost: Future[Picture | None] = Future()
    lost.set_exception(BrokenProcessPool("killed"))

    picture = Drawings([evidence], {(0, "pareto"): lost}).picture(0, "pareto")

    assert picture is not None
    assert picture.light_png.startswith(b"\x89PNG")


DRAWING = """
import signal
from specbench.report.figures import drawings
from tests.report.synthetic import clean, grid, interleaved
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who ran the tests may have ignored it
with drawings([clean(interleaved(grid(temperatures=(0.0,), replicates=1)))]):
    print("drawing", flush=True)
    signal.pause()
"""


def _children_of(parent: int) -> list[int]:
    words = ["ps", "-o", "pid=", "--ppid", str(parent)]
    return [
        int(pid) for pid in subprocess.run(words, capture_output=True, check=False).stdout.split()
    ]


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="drawn by one process here"
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_report_that_is_ended_while_it_draws_leaves_no_process(name: str) -> None:
    words = [sys.executable, "-c", DRAWING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as drawer:
        assert drawer.stdout is not None
        assert drawer.stdout.readline() == b"drawing\n"
        children = _children_of(drawer.pid)
        drawer.send_signal(signal.Signals[name])
        try:
            # Each worker holds the drawer's standard output: it ends with the last of them.
            rest, _ = drawer.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            for pid in (*children, drawer.pid):
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"{children} go on without the process that they draw for")

    assert children
    assert rest == b""
