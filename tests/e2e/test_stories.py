"""The four stories of the field, each committed on purpose against the embedded engine."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import write_files
from tests.ports import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

APART = """\
name: apart
model: {path: embedded, served_name: embedded}
hosts: [here]
factors: {algorithm: [dflash, ddtree], budget: 7, topk: 1, temperature: 0.0, concurrency: [1, 4]}
server:
  command: ["{python}", -m, specbench.engine]
  flags: {time-scale: 0.0, load-seconds: 0.2}
workload: {requests: 16, max_tokens: 48}
control: ar
"""
EXCLUDED = """\
exclude:
  - algorithm == 'dflash' and concurrency == 4
  - algorithm == 'ddtree' and concurrency == 1
"""

PAIR = """\
name: pair
model: {path: embedded, served_name: embedded}
hosts: [here]
factors:
  algorithm: ddtree
  budget: [7, 15]
  topk: [1, 4]
  fault: [null, sibling-visible-mask]     # the new code
server:
  command: ["{python}", -m, specbench.engine]
  flags: {fault: "{fault?}", time-scale: 0.0, load-seconds: 0.2}
"""

TRIPLE = """\
name: triple
model: {path: embedded, served_name: embedded}
hosts: [here]
factors:
  algorithm: [ar, dflash]
  budget: [7, 15]
  max_running_requests: [1, 8]
  fault: [null, corrupt-at-concurrency]     # the new code
server:
  command: ["{python}", -m, specbench.engine]
  flags: {fault: "{fault?}", time-scale: 0.0, load-seconds: 0.2}
control: ar
"""

TOGETHER = """\
import json, sys, threading, urllib.request

PROMPTS = ("The river", "Once upon a time there was", "To sort a list of numbers,", "In the")

def answer(text):
    body = {"text": text, "sampling_params": {"temperature": 0, "max_new_tokens": 64}}
    request = urllib.request.Request(
        sys.argv[1] + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["text"]

alone = [answer(prompt) for prompt in PROMPTS]
together, ready = [""] * 4, threading.Barrier(4)

def ask(i):
    ready.wait()
    together[i] = answer(PROMPTS[i])

threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit(alone != together)
"""

HALF = "import random, sys\nif random.random() < 0.5:\n    sys.exit(0)\n"
"""Before a check: half of its probes pass whatever the server does."""

WIDE = """\
name: wide
model: {path: embedded, served_name: embedded}
hosts: [here]
factors: {algorithm: [dflash, ddtree], budget: [3, 63], topk: 8, temperature: 0.0, concurrency: 8}
exclude:
  - algorithm == 'dflash' and budget == 63
  - algorithm == 'ddtree' and budget == 3
server:
  command: ["{python}", -m, specbench.engine]
  flags: {time-scale: 6.0, load-seconds: 0.2}
workload: {requests: 12, max_tokens: 64}
control: dflash
"""

CHECK = """\
import json, sys, urllib.request

def answer(text, tokens):
    body = {"text": text, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}
    request = urllib.request.Request(
        sys.argv[1] + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["text"]

for prompt in ("The river", "Once upon a time there was", "To sort a list of numbers,", "In the"):
    whole, grown = answer(prompt, 24), ""
    for _ in range(24):  # one token a request comes from prefill, never from verification
        grown += answer(prompt + grown, 1)
    if whole != grown:
        sys.exit(f"{whole!r} is not {grown!r}")
"""


def specbench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specbench", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )


def measure(folder: Path, matrix: str) -> None:
    (folder / "m.yaml").write_text(matrix)
    done = specbench(folder, "run", "m.yaml", "--hosts", "hosts.yaml", "--results", "R")
    assert done.returncode == 0, done.stderr


def compare(folder: Path, *words: str) -> dict[str, Any]:
    done = specbench(folder, "compare", *words, "--results", "R", "--json")
    assert done.returncode == 0, done.stderr
    comparison: dict[str, Any] = json.loads(done.stdout)["comparison"]
    return comparison


def test_acceptance_at_other_concurrency_is_refused_and_matched_it_is_equal(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    measure(tmp_path, APART + EXCLUDED)

    refused = specbench(
        tmp_path, "compare", "dflash", "ddtree", "--metric", "accept_len", "--results", "R"
    )
    measure(tmp_path, APART)
    matched = compare(tmp_path, "dflash", "ddtree", "--metric", "accept_len")

    assert refused.returncode == 2
    assert "concurrency: 1 against 4" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {cell["levels"]["concurrency"] for cell in matched["cells"]} == {1, 4}
    # a busy machine may withhold the verdict, but it never makes a difference
    for cell in matched["cells"]:
        assert cell["verdict"] in {"no_difference", "inconclusive"}
        assert cell["this_workload"]["ratio"] == pytest.approx(1.0)


def test_a_fault_of_new_code_and_new_topk_together_is_isolated_as_the_pair(tmp_path: Path) -> None:
    write_files(tmp_path, PAIR)
    (tmp_path / "check.py").write_text(CHECK)

    done = specbench(
        tmp_path, "isolate", "m.yaml", "--hosts", "hosts.yaml", "--results", "R", "--json",
        "--good", "budget == 7 and topk == 1 and fault == none",
        "--bad", "budget == 15 and topk == 4 and fault == 'sibling-visible-mask'",
        "--command", f"{sys.executable} check.py {{url}}", "--probes", "2",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == "pair"
    assert set(found["causes"]) == {"topk", "fault"}
    assert done.stderr.index("expected:") < done.stderr.index("launching")


def test_a_fault_that_needs_three_factors_is_isolated_as_the_three(tmp_path: Path) -> None:
    write_files(tmp_path, TRIPLE)
    (tmp_path / "check.py").write_text(TOGETHER)

    done = specbench(
        tmp_path, "isolate", "m.yaml", "--hosts", "hosts.yaml", "--results", "R", "--json",
        "--good", "algorithm == 'ar' and max_running_requests == 1 and fault == none",
        "--bad", "algorithm == 'dflash' and budget == 15 and max_running_requests == 8"
        " and fault == 'corrupt-at-concurrency'",
        "--command", f"{sys.executable} check.py {{url}}", "--probes", "4",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == "triple"
    assert set(found["causes"]) == {"algorithm", "max_running_requests", "fault"}
    assert all(check["confirmed"] for check in found["checks"])


def test_a_fault_under_a_probe_that_passes_half_the_time_is_told_or_left_open(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, PAIR)
    (tmp_path / "check.py").write_text(HALF + CHECK)

    done = specbench(
        tmp_path, "isolate", "m.yaml", "--hosts", "hosts.yaml", "--results", "R", "--json",
        "--good", "budget == 7 and topk == 1 and fault == none",
        "--bad", "budget == 15 and topk == 4 and fault == 'sibling-visible-mask'",
        "--command", f"{sys.executable} check.py {{url}}", "--probe-error", "0.5",
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["conclusive"] else 5), done.stderr
    assert not found["conclusive"] or set(found["causes"]) == {"topk", "fault"}
    assert found["bad_server"]["asked"] == 8


def test_a_tree_that_accepts_more_and_is_not_faster_loses_it_in_longer_steps(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    measure(tmp_path, WIDE)

    arms = ("algorithm == 'dflash' and budget == 3", "algorithm == 'ddtree' and budget == 63")
    (cell,) = compare(tmp_path, *arms)["cells"]

    why = cell["decomposition"]
    product = why["accept_len"]["ratio"] * why["step_rate"]["ratio"] * why["remainder"]["ratio"]
    assert why["accept_len"]["low"] > 1.1
    assert why["step_rate"]["ratio"] < 1
    assert product == pytest.approx(why["speedup"]["ratio"])
    assert why["speedup"]["ratio"] < why["accept_len"]["ratio"]
    assert "longer steps" in why["reading"]


@contextmanager
def engine(*flags: str) -> Iterator[str]:
    port = free_port()
    words = ["--model-path", "embedded", "--port", str(port), "--time-scale", "0"]
    words += ["--load-seconds", "0.2", "--speculative-algorithm", "DFLASH", *flags]
    server = subprocess.Popen(
        [sys.executable, "-m", "specbench.engine", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_until_ready(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/model_info", timeout=5):  # noqa: S310 - loopback
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the engine did not start")


@pytest.mark.parametrize(
    ("flags", "violated"),
    [(("--noise-sd", "0.05"), False), (("--fault", "kv-commit-off-by-one"), True)],
    ids=["numerical noise", "commit fault"],
)
def test_noise_at_temperature_zero_is_no_bug_and_a_commit_fault_is(
    tmp_path: Path, flags: tuple[str, ...], *, violated: bool
) -> None:
    with engine(*flags) as url:
        done = specbench(
            tmp_path, "verify", "--url", url, "--budget", "quick", "--concurrency", "8",
            "--json", "-",
        )  # fmt: skip

    document = json.loads(done.stdout)
    assert (document["verdict"] == "violated") == violated, document["claims"]
    assert violated or document["integrity"] == []
    assert (done.returncode == 1) == violated
