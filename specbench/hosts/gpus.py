"""GPUs of a host, as nvidia-smi or rocm-smi tells: what they are, and who uses them."""

import csv
import re
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from specbench.errors import HostError
from specbench.hosts import rocm
from specbench.model.telemetry import Gpu, GpuProcess, GpuSample
from specbench.remote.shell import Shell

Found = TypeVar("Found")

FREE_S = 60.0
_CSV = "--format=csv,noheader,nounits"
_FIELDS = (
    "index,utilization.gpu,memory.used,power.draw,temperature.gpu,clocks.sm,"
    "clocks_throttle_reasons.active"
)
SAMPLE = [f"--query-gpu={_FIELDS}", _CSV, "--loop=1"]
"""Arguments that make nvidia-smi write a line a GPU (`read_sample`) once a second."""


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a host by what stays the same between two launches.

    `cuda` is the newest CUDA that the driver serves. `topology` is the matrix of `nvidia-smi topo
    -m` as text; `nvlink` says whether it shows an NVLink (`NV1`, `NV18`, ...) between two GPUs.
    What the host does not tell is empty or None.
    """

    gpus: tuple[str, ...]
    gpu_memory_mib: tuple[float | None, ...]
    driver: tuple[str, ...]
    cuda: str = ""
    topology: str = ""
    nvlink: bool | None = None


def list_gpus(shell: Shell) -> tuple[Gpu, ...] | None:
    """List the GPUs; None where neither tool is there or works, so that nothing is known."""
    rows = _query(shell, "--query-gpu=index,name,driver_version,memory.total", width=4)
    if rows is None:
        return _ask_rocm(shell, rocm.LIST, rocm.read_gpus)
    return tuple(
        Gpu(index=index, name=name, driver=driver, memory_mib=_number(memory))
        for index, name, driver, memory in rows
    )


def list_processes(shell: Shell) -> tuple[GpuProcess, ...] | None:
    """List the processes that hold GPU memory; None where that cannot be known."""
    rows = _query(shell, "--query-compute-apps=pid,process_name,used_memory", width=3)
    if rows is None:
        return _ask_rocm(shell, rocm.PROCESSES, rocm.read_processes)
    return tuple(
        GpuProcess(pid=int(pid), name=name, memory_mib=_number(memory))
        for pid, name, memory in rows
        if pid.isdigit()
    )


def describe_gpus(shell: Shell) -> GpuFacts | None:
    """Describe the GPUs and what connects them; None where nothing is known of them."""
    found = list_gpus(shell)
    if found is None:
        return None
    topology = _said(shell, ["nvidia-smi", "topo", "-m"])
    cuda = re.search(r"CUDA Version:\s*([\d.]+)", _said(shell, ["nvidia-smi"]))
    return GpuFacts(
        gpus=tuple(gpu.name for gpu in found),
        gpu_memory_mib=tuple(gpu.memory_mib for gpu in found),
        driver=tuple(sorted({gpu.driver for gpu in found if gpu.driver})),
        cuda=cuda[1] if cuda else "",
        topology=topology,
        nvlink=sees_nvlink(topology),
    )


def sees_nvlink(topology: str) -> bool | None:
    """Whether a topology matrix shows an NVLink; None for a text that is no such matrix."""
    rows = [line.split() for line in topology.splitlines() if re.match(r"GPU\d+\s", line)]
    return any(re.fullmatch(r"NV\d+", word) for row in rows for word in row) if rows else None


def describe(processes: tuple[GpuProcess, ...] | None) -> list[str]:
    """Say which processes held GPU memory before the launch: they disturb what is measured."""
    return [
        f"somebody else's pid {p.pid} ({p.name}) holds {p.memory_mib or 0:.0f} MiB of GPU memory"
        for p in processes or ()
    ]


def wait_for_memory(shell: Shell, foreign: tuple[GpuProcess, ...] | None) -> bool:
    """Wait until nobody but those of before holds GPU memory; a killed server's is freed late.

    False when it was not free in time; the next launch will say so in its own way.
    """
    if foreign is None:
        return True
    before = {process.pid for process in foreign}
    deadline = time.monotonic() + FREE_S
    while {p.pid for p in list_processes(shell) or ()} - before:
        if time.monotonic() > deadline:
            return False
        time.sleep(1.0)
    return True


def read_sample(line: str, unix_s: float) -> GpuSample | None:
    """Read one line of nvidia-smi; None for one that is none. `[N/A]` fields stay empty."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 7 or not fields[0].isdigit():
        return None
    util, memory, power, temperature, clock = (_number(field) for field in fields[1:6])
    try:
        throttle = int(fields[6], 16)
    except ValueError:
        throttle = None
    return GpuSample(
        unix_s=unix_s,
        gpu=fields[0],
        util_pct=util,
        mem_used_mib=memory,
        power_w=power,
        temp_c=temperature,
        sm_mhz=clock,
        throttle=throttle,
    )


def _ask_rocm(shell: Shell, words: list[str], read: Callable[[str], Found | None]) -> Found | None:
    said = _said(shell, ["rocm-smi", *words])
    return read(said) if said else None


def _said(shell: Shell, argv: list[str]) -> str:
    """Return what a tool writes, stripped of colours; empty where it is not there or fails."""
    try:
        done = shell.run(argv, timeout_s=20.0)
    except HostError:
        return ""
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).strip() if done.ok else ""


def _query(shell: Shell, query: str, *, width: int) -> list[list[str]] | None:
    try:
        done = shell.run(["nvidia-smi", query, _CSV], timeout_s=20.0)
    except HostError:
        return None  # not installed, or a driver that hangs: either way nothing is known
    if not done.ok:
        return None
    rows = [[field.strip() for field in row] for row in csv.reader(done.stdout.splitlines())]
    return [row for row in rows if len(row) == width]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
