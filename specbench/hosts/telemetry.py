"""Telemetry of a launch: the host and its GPUs, sampled beside everything that is measured."""

import contextlib
import csv
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import msgspec

from specbench.errors import HostError
from specbench.hosts import gpus, rocm
from specbench.hosts.agent import telemetry as agent_telemetry
from specbench.hosts.command import python_of
from specbench.model.host import Host
from specbench.model.telemetry import (
    GPU_COLUMNS,
    HOST_COLUMNS,
    GpuSample,
    GpuSummary,
    HostSample,
    HostSummary,
    summarise_gpus,
    summarise_host,
)
from specbench.remote.shell import Shell

Sample = TypeVar("Sample", GpuSample, HostSample)

INTERVAL_S = 1.0
RETRY_S = 5.0


class Telemetry(Protocol):
    """Whatever knows what hosts and GPUs did; spans are of this machine's wall clock."""

    def gpus(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        """Summarise the GPUs over a span."""
        ...

    def host(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary:
        """Summarise the host over a span.

        `driver_cpus` is how many processors were used by a driver that ran on the host and is no
        process of this specbench: 0 where there was none, None where it is not known.
        """
        ...


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One `host` line of `agent.telemetry`: counters of the host since its boot."""

    cpus: float | None
    load_1min: float | None
    busy: float | None
    total: float | None
    mem_available_kib: float | None
    own: float | None

    def since(self, before: "Tick | None", unix_s: float) -> HostSample:
        """Make a sample of two lines: shares of the ticks that passed between them."""
        memory = self.mem_available_kib
        shares = self._shares(before) if before is not None else (None, None)
        return HostSample(
            unix_s=unix_s,
            load_1min=self.load_1min,
            cpu_busy_pct=shares[0],
            cpu_own_pct=shares[1],
            mem_available_mib=None if memory is None else memory / 1024,
        )

    def _shares(self, before: "Tick") -> tuple[float | None, float | None]:
        passed = _grown(self.total, before.total)
        used = _grown(self.busy, before.busy), _grown(self.own, before.own)
        busy, own = (
            100.0 * each / passed if each is not None and passed else None for each in used
        )
        return busy, own


class Sampler:
    """Sample the host and its GPUs once a second into CSV files, in a thread.

    One command on the host writes all lines. A lost connection interrupts the samples and nothing
    else; they go on when it is back. `server` is the pid there of the server's first process, None
    where it is not known. gpu.csv is made with the first sample of a GPU.
    """

    def __init__(self, shell: Shell, host: Host, folder: Path, *, server: int | None) -> None:
        self._shell = shell
        self._argv = watch_command(host, server)
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="telemetry")
        self._gpus: list[GpuSample] = []
        self._hosts: list[HostSample] = []
        self._cpus: float | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the files are complete afterwards."""
        self._stop.set()
        self._thread.join(10.0)

    def gpus(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        """Summarise the GPUs over a span of this machine's wall clock."""
        return summarise_gpus(_within(self._gpus, since_unix_s, until_unix_s))

    def host(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary:
        """Summarise the host over a span of this machine's wall clock."""
        known = driver_cpus is not None and (self._cpus or not driver_cpus)
        driver_pct = 100.0 * (driver_cpus or 0.0) / (self._cpus or 1) if known else None
        samples = _within(self._hosts, since_unix_s, until_unix_s)
        return summarise_host(samples, driver_pct=driver_pct)

    def _sample(self) -> None:
        with contextlib.ExitStack() as files:
            hosts = _table(files, self._folder / "host.csv", HOST_COLUMNS)
            cards: Table | None = None
            while not self._stop.is_set():
                with contextlib.suppress(HostError):
                    for sample in self._follow():
                        if isinstance(sample, HostSample):
                            self._hosts.append(sample)
                            hosts.add(sample)
                        else:
                            cards = cards or _table(files, self._folder / "gpu.csv", GPU_COLUMNS)
                            self._gpus.append(sample)
                            cards.add(sample)
                self._stop.wait(RETRY_S)

    def _follow(self) -> Iterator[GpuSample | HostSample]:
        before: Tick | None = None
        with self._shell.follow(self._argv) as lines:
            while not self._stop.is_set():
                line = lines.poll(0.5)
                if line is None and lines.status is not None:
                    return
                kind, _, text = (line or "").partition(" ")
                match kind:
                    case "host":
                        tick = read_tick(text)
                        if tick is not None:
                            self._cpus = tick.cpus
                            yield tick.since(before, time.time())
                            before = tick
                    case "nvidia":
                        if sample := gpus.read_sample(text, time.time()):
                            yield sample
                    case "rocm":
                        yield from rocm.read_samples(text, time.time())
                    case _:
                        pass  # what the host's Python may have to say


class Table:
    """A CSV file of samples that is complete up to its last line at any moment."""

    def __init__(self, file: IO[str], columns: Sequence[str]) -> None:
        self._file = file
        self._writer = csv.writer(file)
        self._write(columns)

    def add(self, sample: msgspec.Struct) -> None:
        """Append a sample."""
        self._write(msgspec.structs.astuple(sample))

    def _write(self, row: Sequence[Any]) -> None:
        self._writer.writerow(row)
        self._file.flush()


@contextlib.contextmanager
def sampled(shell: Shell, host: Host, folder: Path, *, server: int | None) -> Iterator[Sampler]:
    """Sample into files of a folder for as long as the context lasts."""
    sampler = Sampler(shell, host, folder, server=server)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def watch_command(host: Host, server: int | None) -> list[str]:
    """Write the command that tells what the host does."""
    program = Path(agent_telemetry.__file__).read_text("utf-8")
    request = {
        "interval_s": INTERVAL_S,
        "server": server,
        "own": [os.getpid()] if host.is_local else [],
        "nvidia": gpus.SAMPLE,
        "rocm": rocm.SAMPLE,
    }
    call = "\nmain(json.loads(sys.argv[1]))\n"
    return [python_of(host), "-I", "-S", "-c", program + call, json.dumps(request)]


def read_tick(text: str) -> Tick | None:
    """Read the fields of a `host` line; None for a line that is none. `-` stays empty."""
    words = text.split()
    if len(words) != 6:
        return None
    try:
        cpus, load, busy, total, memory, own = (None if w == "-" else float(w) for w in words)
    except ValueError:
        return None
    return Tick(
        cpus=cpus, load_1min=load, busy=busy, total=total, mem_available_kib=memory, own=own
    )


def _table(files: contextlib.ExitStack, path: Path, columns: Sequence[str]) -> Table:
    return Table(files.enter_context(path.open("w", newline="")), columns)


def _grown(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else max(0.0, now - then)


def _within(samples: list[Sample], since_unix_s: float, until_unix_s: float) -> list[Sample]:
    return [s for s in tuple(samples) if since_unix_s <= s.unix_s <= until_unix_s]
