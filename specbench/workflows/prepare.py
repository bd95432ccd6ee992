"""From files to a plan: read the matrix and the hosts, find what is done, order what is left."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from specbench import config, planning
from specbench.backends.backend import Ask
from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.model.bill import Assumptions
from specbench.model.host import Host
from specbench.model.load import Dataset, Sampling
from specbench.model.matrix import Cell, Level, Matrix, WorkloadOptions
from specbench.model.plan import Lost, Measured, Plan
from specbench.model.secrets import Secrets, secrets_of
from specbench.recording import (
    Manifest,
    Recording,
    SealedTrial,
    Writer,
    find_recordings,
    utc_now,
)
from specbench.recording.entries import RunBegun, RunResumed
from specbench.version import __version__
from specbench.workflows.client import client_facts
from specbench.workflows.history import Past
from specbench.workflows.recording_open import left_behind


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the user asked for. `only` is an expression; `fresh` starts a new recording.

    `verdicts_only` measures nothing but losslessness, to that depth. `keep_service` leaves the last
    server of each host running. `said` and `model_config` (a config.json) tell durations where no
    recording does; `only_plan` takes hosts that no file names as they come, for nothing is started.
    """

    matrix: Path
    hosts: Path | None = None
    results: Path = Path("results")
    only: str | None = None
    fresh: bool = False
    verdicts_only: Literal["quick", "default", "deep"] | None = None
    keep_service: bool = False
    said: Assumptions | None = None
    model_config: Path | None = None
    only_plan: bool = False


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything that a run needs to know before it touches a host."""

    matrix: Matrix
    hosts: Mapping[str, Host]
    datasets: Mapping[str, Dataset]
    plan: Plan
    past: Past
    recording: Path | None
    results: Path
    keep_service: bool = False

    @property
    def secrets(self) -> Secrets:
        """What must be neither written nor shown, of any host."""
        return secrets_of(self.hosts.values(), environ=os.environ)


def prepare(options: RunOptions) -> Prepared:
    """Read, expand and order. Nothing is started or written.

    Raises InputError (InputErrors for several at once) for anything wrong in the files.
    """
    matrix = with_file_hashes(config.read_matrix(options.matrix))
    if options.verdicts_only:
        matrix = msgspec.structs.replace(matrix, verify=options.verdicts_only)
    hosts = {
        name: with_pinned_files(host) if name in matrix.hosts else host
        for name, host in config.read_hosts(options.hosts).items()
    }
    unnamed = _unnamed(options, matrix, hosts)
    hosts |= {name: Host(name=name) for name in unnamed}
    datasets = config.read_datasets(matrix)
    past = Past(options.results)
    version = past.version(matrix.hosts)
    cells = planning.expand(
        matrix,
        datasets={name: dataset.sha256 for name, dataset in datasets.items()},
        version=version,
        invalid_reason=backend_for(matrix.server.engine).invalid_reason,
    )
    if options.only is not None:
        cells = planning.only(cells, options.only, matrix)
    _check_prompts(matrix, cells, datasets)
    _check_nodes(matrix, hosts)
    root = None if options.fresh else _latest(options.results, matrix.name)
    recording = None if root is None else Recording(root)
    plan = planning.plan(
        matrix,
        cells,
        hosts,
        done={} if recording is None else _measured(recording),
        lost=() if recording is None else _lost(recording),
        history=past.durations(),
        engines={name: host.image for name, host in hosts.items() if host.image},
        host_files={
            name: config.hash_files(hosts[name].files, where=f"files of host {name!r}")
            for name in matrix.hosts
            if name in hosts
        },
        version=version,
        prompts={name: len(dataset.prompts) for name, dataset in datasets.items()},
        said=options.said,
        model=config.read_model(matrix.model.path, options.model_config),
    )
    if unnamed:
        notice = f"no hosts file names {', '.join(unnamed)}: `run` needs --hosts"
        plan = msgspec.structs.replace(plan, notices=(*plan.notices, notice))
    if options.verdicts_only:
        plan = _verdicts_only(plan)
    told = [f"damaged: {one}" for one in recording.damage] if recording else []
    told += left_behind(options.results)
    plan = msgspec.structs.replace(plan, notices=(*plan.notices, *told))
    return Prepared(
        matrix=matrix,
        hosts=hosts,
        datasets=datasets,
        plan=plan,
        past=past,
        recording=root,
        results=options.results,
        keep_service=options.keep_service,
    )


def _unnamed(options: RunOptions, matrix: Matrix, hosts: Mapping[str, Host]) -> list[str]:
    """List the hosts that a plan without a hosts file has to take as they come."""
    if not options.only_plan or options.hosts is not None:
        return []
    return [name for name in matrix.hosts if name not in hosts]


def with_file_hashes(matrix: Matrix) -> Matrix:
    """Pin the files of a matrix and add their hashes: another content is another server."""
    where = matrix.places.get("files") or matrix.path
    files = config.pin_files(matrix.files, where=where)
    hashes = config.hash_files(files, where=where)
    return msgspec.structs.replace(matrix, files=files, file_hashes=hashes)


def with_pinned_files(host: Host) -> Host:
    """Pin the revisions of a host and its nodes: every launch there serves the same code."""
    files = config.pin_files(host.files, where=f"files of host {host.name!r}")
    nodes = tuple(with_pinned_files(node) for node in host.node_hosts)
    return msgspec.structs.replace(host, files=files, node_hosts=nodes)


def open_writer(prepared: Prepared) -> Writer:
    """Go on with the recording of this matrix, or start a new one.

    Raises RecordingError when another run holds it or the folder cannot be written.
    """
    matrix = prepared.matrix
    if prepared.recording is not None:
        writer = Writer.resume(prepared.recording, secrets=prepared.secrets)
        writer.note(RunResumed(matrix=matrix.source, specbench=__version__))
        return writer
    manifest = Manifest(
        name=matrix.name,
        specbench=__version__,
        created_at=utc_now(),
        matrix_path=matrix.path,
        matrix=matrix.source,
        hosts={name: prepared.hosts[name].redacted() for name in matrix.hosts},
        seeds={"matrix": matrix.seed, "workload": matrix.workload.seed},
        client=client_facts(),
        dataset={name: dataset.sha256 for name, dataset in prepared.datasets.items()},
        files=matrix.file_hashes,
    )
    content = hashlib.sha256(matrix.source.encode()).hexdigest()
    writer = Writer.create(prepared.results, manifest, content, secrets=prepared.secrets)
    writer.note(RunBegun(specbench=__version__))
    return writer


def _verdicts_only(plan: Plan) -> Plan:
    """Keep the verifications of a plan, and the launches that they need."""
    blocks = [
        msgspec.structs.replace(block, trials=kept)
        for block in plan.blocks
        if (kept := tuple(trial for trial in block.trials if trial.kind == "verify"))
    ]
    return msgspec.structs.replace(plan, blocks=tuple(blocks), expected_s=None)


def _check_prompts(matrix: Matrix, cells: Sequence[Cell], datasets: Mapping[str, Dataset]) -> None:
    """Refuse prompts that the API cannot carry before a server is loaded for them."""
    asked = {(workload.api, workload.dataset) for workload in _workloads(matrix, cells)}
    for api, name in sorted(asked):
        backend = backend_for(matrix.server.engine)
        for prompt in datasets[name].prompts:
            try:
                backend.request(Ask(prompt=prompt, sampling=Sampling(), api=api))
            except InputError as error:
                place = matrix.places.get("workload.api") or matrix.places.get("factors.api")
                raise InputError(error.what, where=place or matrix.path, hint=error.hint) from None


def _check_nodes(matrix: Matrix, hosts: Mapping[str, Host]) -> None:
    """Refuse a machine with two parts: of a server of its own, and of one over several."""
    known = [hosts[name] for name in matrix.hosts if name in hosts]
    parts = [host.name for host in known] + [node for host in known for node in host.nodes]
    for name in parts:
        if parts.count(name) > 1:
            raise InputError(
                f"host {name!r} has two parts in one run: it is also a node of another host",
                where=matrix.places.get("hosts") or matrix.path,
                hint="take it out of hosts, or out of nodes in hosts.yaml",
            )


def _workloads(matrix: Matrix, cells: Sequence[Cell]) -> Iterator[WorkloadOptions]:
    """Yield the distinct workloads of the cells (equal request levels give equal ones)."""
    seen: set[tuple[Level, ...]] = set()
    for cell in cells:
        key = tuple(cell.levels.get(name) for name in ("api", "dataset"))
        if key not in seen:
            seen.add(key)
            yield planning.workload(matrix, cell)


def _latest(results: Path, name: str) -> Path | None:
    found = find_recordings(results, name)
    return found[-1] if found else None


def _measured(recording: Recording) -> dict[str, Measured]:
    return {sealed.trial.trial_id: _state(sealed) for sealed in recording.sealed}


def _lost(recording: Recording) -> list[Lost]:
    """Give the trials that were sealed and cannot be used any more."""
    return [
        Lost(trial_id=one.trial_id, key=one.key, why=f"{one.file} {one.what}")
        for one in recording.damage
        if one.trial_id
    ]


def _state(sealed: SealedTrial) -> Measured:
    return Measured(
        state=sealed.status,
        key=sealed.trial.key,
        definition=sealed.trial.definition,
        reason=sealed.reason,
    )
