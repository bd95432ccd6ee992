"""Host and GPUs are sampled by one command; what others do is told from what the server does."""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from specbench.hosts.telemetry import Sampler, read_tick, sampled
from specbench.model.host import Host
from specbench.model.telemetry import (
    GPU_COLUMNS,
    HOST_COLUMNS,
    HostSample,
    HostSummary,
    summarise_host,
)
from specbench.remote.local import LocalShell

pytestmark = pytest.mark.process

SPIN = "while True: pass"
ROCM = '{"card0": {"GPU use (%)": "5", "Average Graphics Package Power (W)": "19.0"}}'
TOOLS = {
    "nvidia-smi": "while :; do echo '0, 97, 70000, 650.5, 71, 1980, 0x40'; sleep 0.05; done",
    "rocm-smi": f"echo WARNING; echo '{ROCM}'",
}


@contextmanager
def spinning(*words: str) -> Iterator[int]:
    """A process of a session of its own that keeps one processor busy."""
    argv = [sys.executable, *words, "-c", SPIN]
    with subprocess.Popen(argv, start_new_session=True) as process:
        yield process.pid
        process.kill()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def only(tools: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    for name, script in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def cpu(sampler: Sampler, began: float) -> HostSummary:
    return sampler.host(began, time.time(), driver_cpus=0.0)


def test_what_the_server_uses_is_its_own_and_what_others_use_is_foreign(
    local: Host, tmp_path: Path
) -> None:
    cpus = os.cpu_count() or 1

    with spinning() as server, sampled(LocalShell(), local, tmp_path, server=server) as sampler:
        began = time.time()
        wait_for(lambda: cpu(sampler, began).n > 3)
        alone = cpu(sampler, began)
        with spinning():
            began = time.time() + 1.0
            wait_for(lambda: cpu(sampler, began).n > 3)
            crowded = cpu(sampler, began)

    table = rows(tmp_path / "host.csv")
    assert tuple(table[0]) == HOST_COLUMNS
    assert table[0]["cpu_busy_pct"] == ""
    assert float(table[1]["cpu_own_pct"]) > 20.0 / cpus
    assert alone.load_1min is not None
    assert alone.mem_available_mib is not None
    assert alone.cpu_pct is not None
    assert crowded.foreign_cpu_pct is not None
    assert crowded.foreign_cpu_pct > 20.0 / cpus


def test_a_child_that_lost_its_parent_is_still_the_servers(local: Host, tmp_path: Path) -> None:
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{SPIN}'])"
    keeper = f"import os, time\nif os.fork() == 0:\n    {orphan}\n    os._exit(0)\ntime.sleep(60)"

    with (
        subprocess.Popen([sys.executable, "-c", keeper], start_new_session=True) as server,
        sampled(LocalShell(), local, tmp_path, server=server.pid) as sampler,
    ):
        began = time.time()
        wait_for(lambda: cpu(sampler, began).n > 3)
        os.killpg(server.pid, 9)

    own = [float(row["cpu_own_pct"]) for row in rows(tmp_path / "host.csv")[1:]]
    assert max(own) > 20.0 / (os.cpu_count() or 1)


def test_without_a_server_to_know_nothing_is_called_foreign(local: Host, tmp_path: Path) -> None:
    with sampled(LocalShell(), local, tmp_path, server=None) as sampler:
        began = time.time()
        wait_for(lambda: cpu(sampler, began).n > 2)
        summary = cpu(sampler, began)

    assert summary.cpu_pct is not None
    assert summary.foreign_cpu_pct is None
    assert not (tmp_path / "gpu.csv").exists()


def test_gpus_are_sampled_by_the_same_command(
    local: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(TOOLS, tmp_path / "bin", monkeypatch)
    began = time.time()

    with sampled(LocalShell(), local, tmp_path, server=os.getpid()) as sampler:
        wait_for(lambda: sampler.gpus(began, time.time()).n >= 3)
    summary = sampler.gpus(began, time.time())

    table = rows(tmp_path / "gpu.csv")
    assert tuple(table[0]) == GPU_COLUMNS
    assert len(table) == summary.n
    assert (summary.power_w, summary.temp_c_max, summary.throttled) == (650.5, 71.0, True)
    assert sampler.gpus(0.0, 1.0).n == 0


def test_rocm_smi_is_asked_where_there_is_no_nvidia_smi(
    local: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only({"rocm-smi": TOOLS["rocm-smi"]}, tmp_path / "bin", monkeypatch)
    began = time.time()

    with sampled(LocalShell(), local, tmp_path, server=os.getpid()) as sampler:
        wait_for(lambda: sampler.gpus(began, time.time()).n > 0)

    assert sampler.gpus(began, time.time()).power_w == 19.0


def test_a_host_whose_python_does_not_run_is_not_sampled_and_nothing_fails(
    local: Host, tmp_path: Path
) -> None:
    nowhere = Host(name="nowhere", url=local.url, python="/no/such/python")

    with sampled(LocalShell(), nowhere, tmp_path, server=1) as sampler:
        pass

    assert sampler.host(0.0, time.time(), driver_cpus=0.0) == HostSummary(n=0)


@pytest.mark.parametrize("line", ["", "1 2 3", "1 2 3 4 5 x", "a b c d e f"])
def test_a_line_that_is_none_is_no_tick(line: str) -> None:
    assert read_tick(line) is None


def test_shares_are_of_the_ticks_that_passed_and_a_counter_that_fell_is_no_use_of_less() -> None:
    first, second = read_tick("2 0.5 100 1000 2048 50"), read_tick("2 0.7 150 1200 1024 40")
    assert first is not None
    assert second is not None

    assert second.since(first, 9.0) == HostSample(
        unix_s=9.0, load_1min=0.7, cpu_busy_pct=25.0, cpu_own_pct=0.0, mem_available_mib=1.0
    )
    assert first.since(None, 8.0).cpu_busy_pct is None


def test_a_driver_on_the_host_is_not_foreign_and_one_of_unknown_use_leaves_it_open() -> None:
    samples = [
        HostSample(unix_s=float(n), cpu_busy_pct=80.0, cpu_own_pct=50.0) for n in range(3)
    ]  # fmt: skip

    assert summarise_host(samples).foreign_cpu_pct == 30.0
    assert summarise_host(samples, driver_pct=25.0).foreign_cpu_pct == 5.0
    assert summarise_host(samples, driver_pct=90.0).foreign_cpu_pct == 0.0
    assert summarise_host(samples, driver_pct=None).foreign_cpu_pct is None
    assert summarise_host(samples[:1]).foreign_cpu_pct is None
