"""GPUs are read from nvidia-smi. There is none here: a script that prints its lines stands in."""

import os
from pathlib import Path

import pytest

from specbench.hosts.gpus import (
    describe_gpus,
    list_gpus,
    list_processes,
    read_sample,
    sees_nvlink,
    wait_for_memory,
)
from specbench.model.telemetry import GpuSample, summarise_gpus
from specbench.remote.local import LocalShell
from tests.launchers.scripted import ScriptedShell

pytestmark = pytest.mark.process

STAND_IN = """#!/bin/sh
case "$*" in
  *--query-gpu=index,name*) echo '0, NVIDIA H200, 570.1, 143771' ;;
  *--query-compute-apps*) echo '4711, python train.py, 80000'; echo '4712, [N/A], [N/A]' ;;
  topo*) printf '\t\033[4mGPU0\tGPU1\tCPU Affinity\033[0m\nGPU0\t X \tNV18\t0-63\n' ;;
  '') echo '| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: 12.8  |' ;;
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
def test_what_connects_the_gpus_is_kept_as_text() -> None:
    found = describe_gpus(LocalShell())

    assert found is not None
    assert (found.gpus, found.driver, found.cuda) == (("NVIDIA H200",), ("570.1",), "12.8")
    assert found.topology.splitlines()[1] == "GPU0\t X \tNV18\t0-63"
    assert found.nvlink is True


@pytest.mark.parametrize(
    ("topology", "seen"),
    [
        ("GPU0\t X \tPIX\nGPU1\tPIX\t X ", False),
        ("GPU0\t X \tNV4\n\nLegend:\n  NV#  = a bonded set of NVLinks", True),
        ("Legend:\n  NV4", None),
        ("", None),
    ],
)
def test_an_nvlink_is_one_between_two_gpus(topology: str, seen: bool | None) -> None:
    assert sees_nvlink(topology) is seen


def test_without_nvidia_smi_nothing_is_known_and_nothing_is_zero() -> None:
    failed = (9, "", "NVIDIA-SMI has failed")
    shell = ScriptedShell({"nvidia-smi": failed, "rocm-smi": (127, "", "not found")})

    assert list_gpus(shell) is None
    assert describe_gpus(shell) is None
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
