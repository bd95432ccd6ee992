"""The ground-truth server: built, run, and held against what a load generator says it saw."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.errors import HostError
from specbench.model.load import Accuracy, RequestRecord

_PACKAGED = Path(__file__).parents[1] / "data" / "groundtruth"
_IN_TREE = Path(__file__).parents[2] / "benchmarks" / "groundtruth"
STOP_TIMEOUT_S = 30.0

Floats = NDArray[np.float64]


class Truth(msgspec.Struct, frozen=True):
    """What the server did for one request; `at_ns` is each content event's send."""

    id: str
    received_ns: int
    at_ns: list[int]
    tokens: list[int]
    aborted: bool = False


class Errors(msgspec.Struct, frozen=True):
    """Client minus truth, absolute, in microseconds; `requests` were matched.

    `ttft` has one value a request, `gap` one a gap.
    `miscounted` requests had another number of chunks or tokens than were sent.
    """

    requests: int
    miscounted: int
    ttft: Floats
    gap: Floats


def build(folder: Path, program: str = "truth_server") -> Path:
    """Compile a program of the ground truth with the system's C compiler.

    Raises HostError where there is none, or where it refuses.
    """
    compiler = next(
        (found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None
    )
    if compiler is None:
        raise HostError("no C compiler found (cc, gcc or clang)", hint="on Debian: apt install gcc")
    sources = _PACKAGED if _PACKAGED.is_dir() else _IN_TREE
    built = folder / program
    command = [compiler, "-O2", "-std=gnu17", "-o", str(built), str(sources / f"{program}.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise HostError(f"{compiler} cannot build {program}: {done.stderr.strip()[:500]}")
    return built


@contextlib.contextmanager
def serving(
    server: Path, log: Path, options: Sequence[str], *, prefix: Sequence[str] = ()
) -> Iterator[int]:
    """Run the server and give its port; its log is complete when the context ends."""
    command = [*prefix, str(server), "--log", str(log), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise HostError(f"the ground-truth server did not start: {' '.join(command)}")
        yield int(line)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def undisturbed() -> tuple[str, ...]:
    """Give the command prefix for real-time priority, where that is allowed.

    Preempted between its stamp and its send, the server would tell a lie that falls on the client.
    """
    chrt = shutil.which("chrt")
    return (chrt, "-f", "10") if chrt and os.geteuid() == 0 else ()


def read_log(log: Path) -> dict[str, Truth]:
    """Read the server's log: request id to what happened."""
    decoder = msgspec.json.Decoder(Truth)
    return {(truth := decoder.decode(line)).id: truth for line in log.read_bytes().splitlines()}


def compare(records: Sequence[RequestRecord], truths: dict[str, Truth]) -> Errors:
    """Hold the rows of a drive against the truth, request by request and gap by gap."""
    ttft: list[float] = []
    gaps: list[Floats] = []
    miscounted = 0
    for record in records:
        truth = truths.get(record.rid)
        if truth is None or record.status != "ok":
            continue
        same_tokens = not record.chunk_tokens or record.chunk_tokens == truth.tokens
        if len(record.chunk_ns) != len(truth.at_ns) or not same_tokens:
            miscounted += 1
            continue
        error = first_error_us(record.chunk_ns[0] - record.intended_ns, truth)
        gap = gap_errors_us(record.chunk_ns, truth)
        ttft.append(error)
        gaps.append(gap)
    return Errors(
        requests=len(ttft),
        miscounted=miscounted,
        ttft=np.array(ttft),
        gap=np.concatenate(gaps) if gaps else np.array([]),
    )


def held(errors: Errors, found: Accuracy) -> float:
    """Give the share of requests, or of gaps, inside the bounds claimed: the lesser one."""
    ttft = np.mean(errors.ttft <= (found.ttft_error_us or 0.0)) if errors.ttft.size else 1.0
    gap = np.mean(errors.gap <= (found.gap_error_us or 0.0)) if errors.gap.size else 1.0
    return float(min(ttft, gap))


def first_error_us(ttft_ns: int, truth: Truth) -> float:
    """Give by how much a TTFT is off: against the first send minus the request's arrival."""
    return abs(ttft_ns - (truth.at_ns[0] - truth.received_ns)) / 1e3


def gap_errors_us(stamps_ns: Sequence[int], truth: Truth) -> Floats:
    """Give by how much each gap between events is off."""
    seen = np.diff(np.asarray(stamps_ns, dtype=np.int64))
    sent = np.diff(np.asarray(truth.at_ns, dtype=np.int64))
    return np.abs(seen - sent) / 1e3
