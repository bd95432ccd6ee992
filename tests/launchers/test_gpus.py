"""GPUs are read from nvidia-smi. There is none here: a script that prints its lines stands in."""

import csv
import os
import time
from pathlib import Path

import pytest

from specbench.launchers.gpus import (
    list_gpus,
    list_processes,
    read_sample,
    sampled,
    wait_for_memory,
)
from specbench.model.telemetry import GPU_COLUMNS, GpuSample, summarise_gpus
from specbench.remote.local import LocalShell
from tests.launchers.scripted import ScriptedShell

STAND_IN = """#!/bin/sh
case "$*" in
  *--query-gpu=index,name*) echo '0, NVIDIA H200, 570.1, 143771' ;;
  *--query-compute-apps*) echo '4711, python train.py, 80000'; echo '4712, [N/A], [N/A]' ;;
  *--loop*) while :; do echo '0, 97, 70000, 650.5, 71, 1980, 0x40'; sleep 0.05; done ;;
esac
"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text(STAND_IN)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("nvidia_smi")
def test_gpus_and_their_processes_are_listed() -> None:
    gpus, processes = list_gpus(LocalShell()), list_processes(LocalShell())

    assert gpus is not None
    assert [(gpu.name, gpu.memory_mib) for gpu in gpus] == [("NVIDIA H200", 143771.0)]
    assert processes is not None
    assert [(p.pid, p.memory_mib) for p in processes] == [(4711, 80000.0), (4712, None)]


@pytest.mark.usefixtures("nvidia_smi")
def test_samples_go_to_the_file_and_into_the_summary(tmp_path: Path) -> None:
    began = time.time()

    with sampled(LocalShell(), tmp_path / "gpu.csv") as sampler:
        deadline = time.monotonic() + 10
        while sampler.summary(began, time.time()).n < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    summary = sampler.summary(began, time.time())

    with (tmp_path / "gpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == GPU_COLUMNS
    assert rows[0]["power_w"] == "650.5"
    assert len(rows) == summary.n >= 3
    assert (summary.power_w, summary.temp_c_max, summary.throttled) == (650.5, 71.0, True)
    assert sampler.summary(0.0, 1.0).n == 0


def test_without_nvidia_smi_nothing_is_known_and_nothing_is_zero() -> None:
    shell = ScriptedShell({"nvidia-smi": (9, "", "NVIDIA-SMI has failed")})

    assert list_gpus(shell) is None
    assert list_processes(shell) is None
    assert wait_for_memory(shell, None)


@pytest.mark.parametrize("line", ["", "No devices were found", "1,2", "x, 1, 2, 3, 4, 5, 0x0"])
def test_a_line_that_is_no_sample_is_none(line: str) -> None:
    assert read_sample(line, 0.0) is None


def test_a_field_that_is_not_available_stays_empty() -> None:
    sample = read_sample("1, [N/A], 10, [N/A], 40, 1000, [N/A]", 5.0)

    assert sample == GpuSample(unix_s=5.0, gpu="1", mem_used_mib=10.0, temp_c=40.0, sm_mhz=1000.0)


def test_power_is_averaged_over_time_and_added_over_gpus() -> None:
    samples = [
        GpuSample(unix_s=float(n), gpu=gpu, power_w=power, temp_c=50.0, throttle=mask)
        for n, gpu, power, mask in [(0, "0", 100.0, 1), (1, "0", 300.0, 4), (0, "1", 50.0, 0)]
    ]

    summary = summarise_gpus(samples)

    assert (summary.n, summary.power_w, summary.throttled) == (3, 250.0, False)
    assert summarise_gpus([]).power_w is None
