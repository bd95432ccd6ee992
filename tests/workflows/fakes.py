"""A lab without servers: launches succeed, fail or die as told, and load takes no time."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import HostError, LoadFailed
from specbench.model.event import RunEvent, RunFinished
from specbench.model.host import Host
from specbench.model.load import (
    Accuracy,
    DriveEvent,
    DriveProgress,
    DriveReport,
    LoadSpec,
    RequestRecord,
)
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure, LoadProgress, ServiceFacts
from specbench.model.telemetry import GpuSummary, HostSummary
from specbench.model.verdict import Claim, VerdictDocument
from specbench.verify.events import StageStarted, VerdictReady, VerifyEvent
from specbench.verify.options import VerifyOptions
from specbench.workflows.lab import Lab
from specbench.workflows.prepare import RunOptions
from specbench.workflows.run import run_matrix

MATRIX = """\
name: fake
model: {path: m, served_name: m}
hosts: [local]
factors:
  algorithm: [ar, dflash]
  budget: 7
  temperature: 0.0
  concurrency: [1, 4]
workload: {requests: 3, max_tokens: 8}
"""

OOM = LoadFailure(pattern="cuda_oom", cause="CUDA out of memory", hint="lower it", evidence=("x",))


class FakeService:
    def __init__(self, lab: "FakeLab", spec: LaunchSpec) -> None:
        self.url = "http://127.0.0.1:9"
        self.facts = ServiceFacts(url=self.url, version="0.5.23")
        self.phase_times = {"weights": 1.0}
        self.kept = False
        self._lab = lab
        self._spec = spec

    def until_ready(self) -> Iterator[LoadProgress]:
        yield LoadProgress(phase="weights", fraction=0.5)
        if failure := self._lab.fails_to_load(self._spec):
            raise LoadFailed(
                failure.cause, hint=failure.hint, pattern=failure.pattern, evidence=failure.evidence
            )

    def check(self) -> LoadFailure | None:
        return self._lab.death()

    @property
    def is_out_of_reach(self) -> bool:
        return self._lab.out_of_reach()

    def flush(self) -> bool:
        return True

    def keep(self) -> None:
        self.kept = True

    def gpu_summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary | None:
        assert since_unix_s < until_unix_s
        return self._lab.gpus

    def host_summary(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary | None:
        assert since_unix_s < until_unix_s
        assert driver_cpus == self._lab.driver_cpus
        return self._lab.host


class FakeLauncher:
    def __init__(self, lab: "FakeLab", host: Host) -> None:
        self.host = host
        self._lab = lab

    @contextmanager
    def running(self, spec: LaunchSpec, block_dir: Path) -> Iterator[Any]:
        self._lab.log.append(f"start {spec.algorithm}")
        self._lab.speculative = spec.speculative
        (block_dir / "server.log").write_text("started\n")
        service = FakeService(self._lab, spec)
        kept = False
        try:
            yield service
            kept = service.kept
        finally:
            self._lab.log.append(f"{'keep' if kept else 'stop'} {spec.algorithm}")

    def close(self) -> None:
        self._lab.log.append(f"close {self.host.name}")


class FakeLab:
    """Records what happens in `log`; the callables decide what goes wrong."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.speculative = True
        self.jobs: list[LoadSpec] = []
        self.fails_to_load: Callable[[LaunchSpec], LoadFailure | None] = lambda _: None
        self.death: Callable[[], LoadFailure | None] = lambda: None
        self.records: Callable[[LoadSpec], list[RequestRecord]] = answered
        self.breaks_off: Callable[[], HostError | None] = lambda: None
        self.unreachable = False
        self.out_of_reach: Callable[[], bool] = lambda: False
        self.gpus: GpuSummary | None = None
        self.host: HostSummary | None = None
        self.driver_cpus: float | None = 0.0
        self.document: VerdictDocument | None = VerdictDocument(
            verdict="holds",
            claims=[
                Claim(
                    name="greedy", verdict="holds", method="regret audit", n_tokens=9,
                    concurrency=16, temperature=0.0,
                )
            ],
        )  # fmt: skip

    def lab(self) -> Lab:
        return Lab(launcher=self._launcher, drive=self._drive, verify=self._verify)

    def _launcher(self, host: Host, _: Mapping[str, float] | None) -> Any:
        if self.unreachable:
            raise HostError("no route to host", hint="check the cable")
        return FakeLauncher(self, host)

    def _verify(self, url: str, options: VerifyOptions) -> Iterator[VerifyEvent]:
        self.log.append(f"verify {url} {options.budget}")
        yield StageStarted(stage="greedy")
        if self.document is None:
            raise HostError("the server does not answer any more")
        yield VerdictReady(document=self.document)

    def _drive(self, _: Host, job: LoadSpec, sink: Path) -> Generator[DriveEvent, None, None]:
        self.jobs.append(job)
        self.log.append(f"drive {job.shape.concurrency}")  # type: ignore[union-attr]  # all are closed loops here
        if error := self.breaks_off():
            raise error
        records = self.records(job)
        if not self.speculative:
            records = [plain(record) for record in records]
        sink.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        yield DriveProgress(elapsed_s=1, in_flight=1, finished=0, failed=0, output_tokens=0)
        yield DriveReport(
            start_unix_ns=0,
            measured_start_ns=0,
            measured_end_ns=10**9,
            window_start_ns=None,
            window_end_ns=None,
            requests=len(records),
            failed=sum(record.status != "ok" for record in records),
            interrupted=False,
            accuracy=Accuracy(stamp="read", processes=1, events=1, reads=1),
        )


def answered(job: LoadSpec) -> list[RequestRecord]:
    count = job.stop.requests or 0
    return [
        RequestRecord(
            rid=f"r{number}",
            prompt_id=f"p{number}",
            written_ns=0,
            first_token_ns=1,
            last_token_ns=10**9,
            end_ns=10**9,
            output_tokens=9,
            chunk_ns=[1, 10**9],
            chunk_tokens=[1, 8],
            tokens_in_first_chunk=1,
            spec_verify_ct=2,
            spec_accepted=6,
        )
        for number in range(count)
    ]


def plain(record: RequestRecord) -> RequestRecord:
    """Give what a server that does not speculate answers: no counters."""
    return msgspec.structs.replace(record, spec_verify_ct=None, spec_accepted=None)


def refused(job: LoadSpec) -> list[RequestRecord]:
    return [
        RequestRecord(rid=f"r{n}", prompt_id="p", status="failed", reason="http_5xx", end_ns=1)
        for n in range(job.stop.requests or 0)
    ]


def run(options: RunOptions, lab: Lab) -> list[RunEvent]:
    with closing(run_matrix(options, lab)) as events:
        return list(events)


def finish(events: list[RunEvent]) -> RunFinished:
    (finished,) = (event for event in events if isinstance(event, RunFinished))
    return finished
