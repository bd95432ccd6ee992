"""One trial on a running server: drive the load, watch the server, summarise, seal."""

import os
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from specbench import config
from specbench.analysis.failures import failures, told
from specbench.analysis.summary import SUMMARY_VERSION, energy, raised_flags, summarise
from specbench.backends.client import ControlClient
from specbench.backends.products import backend_for
from specbench.errors import DriveFailed, HostError
from specbench.model.columns import names_from
from specbench.model.event import RunEvent, TrialFinished, TrialProgress, TrialStarted
from specbench.model.host import Host
from specbench.model.load import (
    Closed,
    DriveReport,
    LoadSpec,
    RequestRecord,
    Shape,
    Stop,
    Target,
)
from specbench.model.matrix import WorkloadOptions
from specbench.model.plan import Asked, Block, Trial
from specbench.model.service import LoadFailure
from specbench.model.telemetry import FOREIGN_PCT, HostSummary
from specbench.recording import SealedTrial, utc_now
from specbench.workflows.client import client_facts
from specbench.workflows.lab import drives_remotely
from specbench.workflows.trial_context import Bench, ServerDied, server_identity

if TYPE_CHECKING:
    from specbench.launchers import Service

FAILED_SHARE = 0.1
"""A trial with a larger share of failed requests is itself failed: its figures describe errors."""

CHECK_EVERY_S = 1.0
DEATH_SHOWS_S = 2.0
"""A killed server refuses connections a moment before its host says that the process has ended."""

BROKE_OFF = "load_broke_off"
"""The `pattern` of a load that ended early beside a server of which no death is known."""

_decode = msgspec.json.Decoder(RequestRecord).decode


def measure(
    bench: Bench, block: Block, trial: Trial, service: "Service"
) -> Generator[RunEvent, None, None]:
    """Measure one trial and seal it, as ok or as failed with its reason.

    Raises ServerDied when the server or the load broke off; the trial is sealed as failed before.
    """
    yield TrialStarted(trial=trial)
    asked = asked_of(trial)
    draft = bench.writer.draft(trial.trial_id)
    sink = draft / "requests.jsonl"
    spec = load_spec(
        asked,
        prompts_of(bench, asked),
        target=Target(
            url=bench.host.url if drives_remotely(bench.host) else service.url,
            model=block.spec.served_name,
            api=asked.workload.api,
            engine=block.spec.engine,
            api_key_env=bench.host.api_key_env,
        ),
        folder=draft,
        salt=trial.trial_id,
        seed=trial.seed,
    )
    service.flush()
    client = client_facts() | {"load_avg_1min": os.getloadavg()[0]} | _placement(bench.host)
    started_at, clock = utc_now(), time.monotonic()
    report, failure = yield from _drive(bench, trial, service, spec, sink)
    death = failure if isinstance(failure, LoadFailure) else None
    (draft / "prompts.jsonl").unlink(missing_ok=True)
    sealed = _sealed(
        bench, block, trial, service, client=client, spec=spec,
        workload=asked.workload, report=report,
        failure=failure, sink=sink, started_at=started_at, duration_s=time.monotonic() - clock,
    )  # fmt: skip
    if report is not None and report.interrupted and death is None:
        return  # the user stopped it: the draft is dropped, and the trial is measured again
    bench.writer.seal(sealed)
    yield TrialFinished(
        trial=trial,
        status=sealed.status,
        reason=sealed.reason,
        tok_s=sealed.row.get("tok_s"),
        accept_len=sealed.row.get("accept_len"),
        flags=sealed.flags,
    )
    if death is not None:
        raise ServerDied(death)


def asked_of(trial: Trial) -> Asked:
    """Give what the planner resolved for a trial; a trial without it is not of this plan."""
    if trial.asked is None:
        raise ValueError("only a planned trial is measured")
    return trial.asked


def load_spec(
    asked: Asked,
    prompts: config.PromptSet,
    *,
    target: Target,
    folder: Path,
    salt: str,
    seed: int,
) -> LoadSpec:
    """Write the prompts in their order into `folder`, and say all that the driver must know."""
    workload = asked.workload
    warmup = _warmup(workload, asked.shape)
    path = folder / "prompts.jsonl"
    own = write_prompts(prompts, path, warmup=warmup, seed=seed)
    return LoadSpec(
        target=target,
        prompts_path=str(path),
        sampling=asked.sampling,
        shape=asked.shape,
        stop=Stop(requests=prompts.requests, seconds=workload.seconds, tokens=workload.tokens),
        warmup_requests=warmup,
        warmup_prompts=own,
        request_timeout_s=workload.request_timeout_s,
        salt=salt,
        seed=seed,
        keep_text_of=shown_prompts(prompts),
    )


def shown_prompts(prompts: config.PromptSet) -> tuple[str, ...]:
    """Choose the prompts whose replies are kept: the same on every arm, of different categories."""
    by_category: dict[str, str] = {}
    for prompt in sorted(prompts.prompts, key=lambda one: one.prompt_id):
        by_category.setdefault(prompt.category, prompt.prompt_id)
    first = sorted(by_category.values())
    rest = sorted({one.prompt_id for one in prompts.prompts} - set(first))
    return tuple([*first, *rest][:KEPT_TEXTS])


KEPT_TEXTS = 3
"""Prompts of a trial whose replies are kept whole, for a reader to see."""


def prompts_of(bench: Bench, asked: Asked) -> config.PromptSet:
    """Give the prompts that every trial of a cell asks."""
    workload = asked.workload
    held = bench.datasets[workload.dataset].prompts
    by_need = not isinstance(workload.requests, int)
    return config.choose_prompts(held, asked.requests, workload.seed, tight=by_need)


def write_prompts(prompts: config.PromptSet, path: Path, *, warmup: int, seed: int) -> int:
    """Write the prompts of one trial for the driver; gives how many are for warm-up alone."""
    own = prompts.warmup[:warmup]
    lines = map(msgspec.json.encode, (*own, *prompts.in_order(seed)))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return len(own)


def _warmup(workload: WorkloadOptions, shape: Shape) -> int:
    """Count the warm-up requests: by default one for every slot of the concurrency."""
    if workload.warmup != "auto":
        return workload.warmup
    return max(2, shape.concurrency) if isinstance(shape, Closed) else 8


def _drive(
    bench: Bench, trial: Trial, service: "Service", spec: LoadSpec, sink: Path
) -> Generator[RunEvent, None, tuple[DriveReport | None, LoadFailure | str]]:
    """Drive the load and watch the server.

    Returns the report (or None), and what broke off or why else nothing was measured.
    """
    report: DriveReport | None = None
    cut_off, through_it = False, _placement(bench.host)["drive_from"] == "here"
    checked = time.monotonic()
    try:
        with closing(bench.lab.drive(bench.host, spec, sink)) as drive:
            for event in drive:
                if isinstance(event, DriveReport):
                    report = event
                    continue
                yield TrialProgress(trial=trial, progress=event)
                if time.monotonic() - checked > CHECK_EVERY_S:
                    checked = time.monotonic()
                    if death := service.check():
                        return None, death
                    cut_off = cut_off or service.is_out_of_reach
    except DriveFailed as error:
        failure = settled(bench, service, cut_off=cut_off, through_it=through_it)
        return None, failure or LoadFailure(
            pattern=BROKE_OFF, cause=error.what, hint=error.hint or ""
        )
    except HostError:
        # the host itself: the server's own log says why, if it died
        failure = aftermath(bench, service, cut_off=cut_off, through_it=through_it)
        if not failure:
            raise
        return None, failure
    return report, aftermath(bench, service, cut_off=cut_off, through_it=through_it)


def settled(
    bench: Bench, service: "Service", *, cut_off: bool, through_it: bool
) -> LoadFailure | Literal["", "the host was out of reach for a while"]:
    """Say what became of a server that does not answer, as soon as that shows; see `aftermath`."""
    deadline = time.monotonic() + DEATH_SHOWS_S
    while True:
        found = aftermath(bench, service, cut_off=cut_off, through_it=through_it)
        if found or bench.stopped() or time.monotonic() > deadline:
            return found
        time.sleep(DEATH_SHOWS_S / 20)


def aftermath(
    bench: Bench, service: "Service", *, cut_off: bool, through_it: bool
) -> LoadFailure | Literal["", "the host was out of reach for a while"]:
    """Say what became of the server; where its host is out of reach, wait until that is known.

    A trial must not blame its requests for a reboot, nor the next one begin before it is over. One
    whose load came `through_it`, a connection that was gone for a while, has measured that.
    """
    death = service.check()
    while death is None and service.is_out_of_reach and not bench.stopped():
        cut_off = True
        time.sleep(CHECK_EVERY_S)
        death = service.check()
    if death is not None:
        return death
    return "the host was out of reach for a while" if cut_off and through_it else ""


def _sealed(
    bench: Bench, block: Block, trial: Trial, service: "Service", *,
    client: dict[str, Any], spec: LoadSpec, workload: WorkloadOptions, report: DriveReport | None,
    failure: LoadFailure | str, sink: Path, started_at: str, duration_s: float,
) -> SealedTrial:  # fmt: skip
    row: dict[str, Any] = {}
    flags: tuple[str, ...] = ()
    failed = ""
    if report is not None:
        records = read_requests(sink)
        row, flags = _summary(bench, block, trial, service, report, records)
        failed = told(failures(records))
        if report.gave_up and not failure:
            failure = report.gave_up
    status, reason = _outcome(row, failure, failed)
    return SealedTrial(
        trial=trial,
        status=status,
        reason=reason,
        started_at=started_at,
        ended_at=utc_now(),
        duration_s=duration_s,
        report=report,
        sampling=msgspec.to_builtins(spec.sampling),
        workload=msgspec.to_builtins(workload)
        | {"dataset_sha256": bench.datasets[workload.dataset].sha256},
        client=client,
        server=server_identity(block, service.facts.version),
        flags=flags,
        row=row,
        row_version=SUMMARY_VERSION,
    )


def _summary(
    bench: Bench, block: Block, trial: Trial, service: "Service", report: DriveReport,
    records: list[RequestRecord],
) -> tuple[dict[str, Any], tuple[str, ...]]:  # fmt: skip
    """Compute the summary columns, and everything that a reader should doubt about them."""
    levels = asked_of(trial).workload.slo
    row = summarise(records, report, speculative=block.spec.speculative, levels=levels)
    row["accept_len_server"] = _server_accept_len(bench.host, block, service)
    start = report.start_unix_ns
    gpus = service.gpu_summary(
        (start + report.measured_start_ns) / 1e9, (start + report.measured_end_ns) / 1e9
    )
    if gpus is not None:
        row |= {"gpu_power_w": gpus.power_w, "gpu_temp_c_max": gpus.temp_c_max}
        row |= energy(row)
    host = _host_summary(bench.host, service, report)
    row |= _host_columns(host)
    asked = asked_of(trial)
    workload, shape = asked.workload, asked.shape
    flags = (
        *_server_doubts(block, trial, service),
        *raised_flags(
            row,
            report,
            records,
            n_prompts=len(prompts_of(bench, asked).prompts),
            slots=shape.concurrency if isinstance(shape, Closed) else None,
        ),
        *(["thermal"] if gpus is not None and gpus.throttled else []),
        *(["foreign_load"] if host and (host.foreign_cpu_pct or 0.0) > FOREIGN_PCT else []),
        *(["ignore_eos"] if workload.ignore_eos else []),
        *(["no_chat_template"] if workload.api != "chat" else []),
        *(["driven_remotely"] if _placement(bench.host)["drive_from"] == "here" else []),
    )
    return row, tuple(dict.fromkeys(flags))


def _host_summary(host: Host, service: "Service", report: DriveReport) -> HostSummary | None:
    """Summarise the host over the drive; a driver over there is no load of somebody else's."""
    cpu_s, span_s = report.accuracy.cpu_s, report.measured_end_ns / 1e9
    driver_cpus: float | None = 0.0
    if drives_remotely(host):
        driver_cpus = cpu_s / span_s if cpu_s is not None and span_s > 0 else None
    start = report.start_unix_ns
    return service.host_summary(
        (start + report.measured_start_ns) / 1e9,
        (start + report.measured_end_ns) / 1e9,
        driver_cpus=driver_cpus,
    )


def _host_columns(host: HostSummary | None) -> dict[str, Any]:
    """Name the columns of a trial that tell of its host; none where nothing was sampled."""
    if host is None or not host.n:
        return {}
    said = {f"host_{name}": value for name, value in msgspec.structs.asdict(host).items()}
    return {name: said[name] for name in names_from("host") if name in said}


def read_requests(sink: Path) -> list[RequestRecord]:
    """Read the rows that a driver wrote; none where it wrote nothing."""
    if not sink.exists():
        return []
    with sink.open("rb") as file:
        return [_decode(line) for line in file if line.strip()]


def _placement(host: Host) -> dict[str, Any]:
    """Say where the load came from: beside the server, or across the way to it."""
    if host.is_local or drives_remotely(host):
        return {"drive_from": "host"}
    return {"drive_from": "here"}


def _outcome(
    row: dict[str, Any], failure: LoadFailure | str, failed_how: str
) -> tuple[Literal["ok", "failed"], str]:
    """Say whether a trial counts, and why not; of one that counts, why some requests failed."""
    if isinstance(failure, LoadFailure):
        who = "" if failure.pattern == BROKE_OFF else "the server died: "
        return "failed", who + failure.cause
    if failure:
        return "failed", failure
    asked, failed = row.get("n_requests") or 0, row.get("n_failed") or 0
    if not asked or failed == asked:
        return "failed", f"none of {asked} requests succeeded: {failed_how}"
    if failed / asked > FAILED_SHARE:
        return "failed", f"{failed} of {asked} requests failed: {failed_how}"
    return "ok", failed_how


def _server_doubts(block: Block, trial: Trial, service: "Service") -> tuple[str, ...]:
    """Hold the running server against the cell: a silent cap shows at this concurrency only."""
    concurrency = trial.cell.levels.get("concurrency")
    found = backend_for(block.spec.engine).findings(
        block.spec,
        service.facts.server_info,
        service.facts.model_info,
        concurrency=concurrency if isinstance(concurrency, int) else None,
    )
    return (*service.facts.flags, *(finding.flag for finding in found))


def _server_accept_len(host: Host, block: Block, service: "Service") -> float | None:
    """Read what the server itself reports (lifetime since the flush; kept for reconciliation)."""
    backend = backend_for(block.spec.engine)
    with ControlClient(service.url, backend, api_key=host.api_key) as client:
        return client.facts().accept_len
