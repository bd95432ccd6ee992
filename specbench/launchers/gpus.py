"""GPUs of a host, as nvidia-smi tells: what they are, who uses them, what they do meanwhile."""

import contextlib
import csv
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from specbench.errors import HostError
from specbench.model.telemetry import GPU_COLUMNS, GpuSample, GpuSummary, summarise_gpus
from specbench.remote.shell import Shell

INTERVAL_S = 1
RETRY_S = 5.0
FREE_S = 60.0
_CSV = "--format=csv,noheader,nounits"
_FIELDS = (
    "index,utilization.gpu,memory.used,power.draw,temperature.gpu,clocks.sm,"
    "clocks_throttle_reasons.active"
)


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU: name, driver and memory as the driver reports them."""

    index: str
    name: str
    driver: str
    memory_mib: float | None


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds GPU memory."""

    pid: int
    name: str
    memory_mib: float | None


def list_gpus(shell: Shell) -> tuple[Gpu, ...] | None:
    """List the GPUs; None where nvidia-smi is missing or fails, so that nothing is known."""
    rows = _query(shell, "--query-gpu=index,name,driver_version,memory.total", width=4)
    if rows is None:
        return None
    return tuple(
        Gpu(index=index, name=name, driver=driver, memory_mib=_number(memory))
        for index, name, driver, memory in rows
    )


def list_processes(shell: Shell) -> tuple[GpuProcess, ...] | None:
    """List the processes that hold GPU memory; None where that cannot be known."""
    rows = _query(shell, "--query-compute-apps=pid,process_name,used_memory", width=3)
    if rows is None:
        return None
    return tuple(
        GpuProcess(pid=int(pid), name=name, memory_mib=_number(memory))
        for pid, name, memory in rows
        if pid.isdigit()
    )


class GpuSource(Protocol):
    """Whatever knows what GPUs did."""

    def summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        """Summarise a span of this machine's wall clock."""
        ...


class GpuSampler:
    """Sample the GPUs once a second into a CSV file, in a thread, for as long as the context lasts.

    A lost connection interrupts the samples and nothing else; they go on when it is back.
    """

    def __init__(self, shell: Shell, path: Path) -> None:
        self._shell = shell
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="gpu samples")
        self._samples: list[GpuSample] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the file is complete afterwards."""
        self._stop.set()
        self._thread.join(10.0)

    def summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        """Summarise the samples of a span of this machine's wall clock."""
        samples = tuple(self._samples)
        return summarise_gpus(s for s in samples if since_unix_s <= s.unix_s <= until_unix_s)

    def _sample(self) -> None:
        with self._path.open("a", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(GPU_COLUMNS)
            while not self._stop.is_set():
                with contextlib.suppress(HostError):
                    for sample in self._follow():
                        self._samples.append(sample)
                        writer.writerow(msgspec.structs.astuple(sample))
                        file.flush()
                self._stop.wait(RETRY_S)

    def _follow(self) -> Iterator[GpuSample]:
        argv = ["nvidia-smi", f"--query-gpu={_FIELDS}", _CSV, f"--loop={INTERVAL_S}"]
        with self._shell.follow(argv) as lines:
            while not self._stop.is_set():
                line = lines.poll(0.5)
                if line is None and lines.status is not None:
                    return
                sample = read_sample(line, time.time()) if line else None
                if sample is not None:
                    yield sample


@contextlib.contextmanager
def sampled(shell: Shell, path: Path) -> Iterator[GpuSampler]:
    """Sample into a file for as long as the context lasts."""
    sampler = GpuSampler(shell, path)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


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
