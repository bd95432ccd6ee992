"""A worker on its own: it ends with its parent, and in silence."""

import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from specbench.loadgen.hotpath.endpoint import resolve
from specbench.loadgen.messages import WorkerSpec
from specbench.loadgen.schedule import Share
from tests.loadgen.scripted import make_load

pytestmark = pytest.mark.process


def test_a_worker_whose_parent_is_gone_ends_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        load = make_load(tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}")
        endpoint = resolve(load.target, 1.0)
    spec = WorkerSpec(
        load=load,
        share=Share(),
        endpoint=endpoint,
        drive_id="d",
        sink=str(tmp_path / "rows.jsonl"),
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "specbench.loadgen.hotpath.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with worker:
        assert worker.stdout is not None
        worker.stdout.close()
        _, complaint = worker.communicate(msgspec.json.encode(spec) + b"\n", timeout=30)

    assert complaint == b""
    assert worker.returncode == 1


@pytest.mark.parametrize("said", [b"", b'{"type":"order","load":{'])
def test_a_worker_whose_parent_died_before_its_order_was_out_says_nothing(said: bytes) -> None:
    words = [sys.executable, "-m", "specbench.loadgen.hotpath.worker"]

    done = subprocess.run(words, input=said, capture_output=True, timeout=60, check=False)

    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
