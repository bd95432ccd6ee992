"""What this machine can measure, and how well: the driver against a server that knows the truth."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from specbench.errors import HostError
from specbench.loadgen import drive
from specbench.model.load import (
    Api,
    Closed,
    DriveReport,
    LoadSpec,
    Prompt,
    RequestRecord,
    Sampling,
    Stop,
    Target,
)
from specbench.workflows.truth_server import (
    Errors,
    build,
    compare,
    held,
    read_log,
    serving,
    undisturbed,
)

GAP_MS = 10
TTFT_MS = 50
TOKENS = 100


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the self-test: load taken, CPU used, real errors beside the claimed bounds.

    `claim_held` is the share of requests, or of gaps, inside the bounds: the lesser one.
    """

    streams: int
    processes: int
    events_s: float
    cpu_us_per_event: float
    cpu_share: float
    exact_share: float | None
    ttft_error_us_p50: float
    ttft_error_us_p99: float
    gap_error_us_p50: float
    gap_error_us_p99: float
    claimed_ttft_us: float | None
    claimed_gap_us: float | None
    claim_held: float
    miscounted: int
    flags: tuple[str, ...]


def self_test(streams: Sequence[int], *, processes: int = 0) -> Iterator[Limit]:
    """Measure each number of streams at 100 events a second each, all in lock step.

    Raises HostError where there is no C compiler.
    """
    with tempfile.TemporaryDirectory(prefix="specbench-selftest-") as scratch:
        folder = Path(scratch)
        server = build(folder)
        for count in streams:
            yield _level(server, folder, count, processes)


def _level(server: Path, folder: Path, streams: int, processes: int) -> Limit:
    log, sink = folder / "truth.jsonl", folder / f"rows-{streams}.jsonl"
    options = ["--ttft-us", str(TTFT_MS * 1000), "--gap-us", str(GAP_MS * 1000), "--step"]
    with serving(server, log, options, prefix=undisturbed()) as port:
        spec = truth_load(folder, port, streams, 2 * streams, TOKENS, processes=processes)
        *_, report = drive(spec, sink)
    if not isinstance(report, DriveReport):
        raise HostError("the drive ended without a report")
    decoder = msgspec.json.Decoder(RequestRecord)
    records = [decoder.decode(line) for line in sink.read_bytes().splitlines()]
    return _limit(streams, report, compare(records, read_log(log)))


def truth_load(
    folder: Path,
    port: int,
    streams: int,
    requests: int,
    tokens: int,
    *,
    processes: int,
    api: Api = "chat",
) -> LoadSpec:
    """Give the spec that drives a closed loop against the ground-truth server."""
    prompts = folder / "prompts.jsonl"
    prompts.write_bytes(msgspec.json.encode(Prompt(prompt_id="truth", text="Say something.")))
    return LoadSpec(
        target=Target(url=f"http://127.0.0.1:{port}", model="truth", api=api),
        prompts_path=str(prompts),
        sampling=Sampling(max_tokens=tokens),
        shape=Closed(concurrency=streams),
        stop=Stop(requests=requests),
        processes=processes,
    )


def _limit(streams: int, report: DriveReport, errors: Errors) -> Limit:
    if not errors.requests:
        raise HostError(f"no request of the self-test at {streams} streams came through")
    found = report.accuracy
    seconds = (report.measured_end_ns - report.measured_start_ns) / 1e9
    return Limit(
        streams=streams,
        processes=found.processes,
        events_s=found.events / seconds,
        cpu_us_per_event=(found.cpu_s or 0.0) / max(found.events, 1) * 1e6,
        cpu_share=found.cpu_share or 0.0,
        exact_share=found.exact_share,
        ttft_error_us_p50=float(np.percentile(errors.ttft, 50)),
        ttft_error_us_p99=float(np.percentile(errors.ttft, 99)),
        gap_error_us_p50=float(np.percentile(errors.gap, 50)),
        gap_error_us_p99=float(np.percentile(errors.gap, 99)),
        claimed_ttft_us=found.ttft_error_us,
        claimed_gap_us=found.gap_error_us,
        claim_held=held(errors, found),
        miscounted=errors.miscounted,
        flags=found.flags,
    )
