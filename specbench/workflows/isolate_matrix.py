"""`isolate MATRIX`: from two cells of a matrix to the servers that lie between them."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from specbench import config, planning
from specbench.backends.products import backend_for
from specbench.errors import InputError, LoadFailed
from specbench.expressions.expression import ExpressionError, parse
from specbench.model.host import Host
from specbench.model.matrix import Cell, Level, Matrix
from specbench.model.plan import LaunchSpec
from specbench.planning.causes import Configuration
from specbench.planning.design import Design
from specbench.planning.search_terms import Candidate, Options
from specbench.workflows.history import Past
from specbench.workflows.isolate_events import IsolateEvent
from specbench.workflows.isolate_journal import Settings
from specbench.workflows.isolate_search import Case, Probe, Probed, isolate
from specbench.workflows.lab import Lab
from specbench.workflows.prepare import with_file_hashes, with_pinned_files
from specbench.workflows.probes import Bench, ProbeKind, probe_kind

WEIGHTS = {
    "code": 4.0, "commit": 4.0, "files": 4.0, "algorithm": 4.0, "version": 3.0, "budget": 2.0,
    "topk": 2.0, "block": 2.0, "draft": 2.0, "cuda_graph": 1.5, "attention_backend": 1.5,
    "mem_fraction_static": 0.3, "max_running_requests": 0.5,
}  # fmt: skip
"""Prior odds: code and the options that it touches are likelier than memory sizes."""


@dataclass(frozen=True, kw_only=True)
class IsolateOptions:
    """What the user asked for. `good` and `bad` are expressions that name one server each.

    `probes` are asked in every launch (None: 8, and fewer where they take longer than launches and
    the bad server fails them all), `probe_error` is how often one passes on a failing server
    (None: learnt), `second_looks` are launches of the answer's configurations that are repeated
    (None: one in a short search).
    """

    matrix: Path
    good: str
    bad: str
    probe: str = "lossless"
    command: str | None = None
    hosts: Path | None = None
    results: Path = Path("results")
    launch_minutes: float | None = None
    probes: int | None = None
    probe_error: float | None = None
    second_looks: int | None = None
    most_launches: int = 30


def isolate_matrix(options: IsolateOptions, lab: Lab) -> Generator[IsolateEvent, None, None]:
    """Find what turns the good cell into the bad one; the last event is the Finding.

    Raises:
        InputError: a file or an expression is wrong, or the cells do not differ in a launch factor.
        HostError: the host cannot be used.
    """
    matrix = with_file_hashes(config.read_matrix(options.matrix))
    host = with_pinned_files(config.read_hosts(options.hosts)[matrix.hosts[0]])
    good, bad = (_server(matrix, text, side) for side, text in
                 (("--good", options.good), ("--bad", options.bad)))  # fmt: skip
    past = Past(options.results)
    between = _Between(matrix, good.levels, bad.levels, past.version((host.name,)))
    workload = planning.workload(matrix, bad)
    bench = Bench(
        matrix=matrix,
        dataset=config.read_datasets(matrix)[workload.dataset],
        workload=workload,
        lab=lab,
        host=host,
    )
    kind = probe_kind(options.probe, options.command, bench)
    minutes = options.launch_minutes or _launch_minutes(past, host, matrix)
    case = Case(
        name=matrix.name,
        candidates=between.candidates,
        running=lambda chosen: _running(between, host, lab, kind, options.results, chosen),
        probe=kind.text,
        settings=_settings(bench, bad, kind),
        free=kind.factors,
        can_launch=between.can_launch,
        options=_search_options(options, minutes),
        cost_known=minutes is not None,
        thrifty=options.probes is None,
    )
    return isolate(case, options.results)


def _search_options(options: IsolateOptions, minutes: float | None) -> Options:
    given = Options(
        probes=options.probes or Options().probes,
        probe_error=options.probe_error,
        second_looks=options.second_looks,
        most_launches=options.most_launches,
    )
    return given if minutes is None else msgspec.structs.replace(given, launch_minutes=minutes)


class _Between:
    """The servers between a good and a bad one."""

    def __init__(
        self, matrix: Matrix, good: dict[str, Level], bad: dict[str, Level], version: str | None
    ) -> None:
        self.matrix = matrix
        self.version = version
        self.design = Design(matrix)
        self.bad = bad
        self.good = {name: self._good_level(name, good, bad) for name in self.design.launch_names}
        self.candidates = tuple(
            Candidate(
                name=name,
                good=self.good[name],
                bad=bad[name],
                weight=WEIGHTS.get(name, 1.0),
            )
            for name in self.design.launch_names
            if self.good[name] != bad[name]
            and (bad[name] is not None or None in matrix.factors[name])
        )
        if not self.candidates:
            raise InputError(
                "the good and the bad cell need the same server",
                hint="they differ in load or requests only: `specbench compare` matches those",
            )

    def _good_level(self, name: str, good: dict[str, Level], bad: dict[str, Level]) -> Level:
        """Give a factor that the good arm lacks another level of the matrix as its good one.

        Where the matrix has none it comes with the algorithm and is no suspect by itself.
        """
        if good[name] is not None or None in self.matrix.factors[name]:
            return good[name]
        others = [level for level in self.matrix.factors[name] if level not in (None, bad[name])]
        return others[0] if others else bad[name]

    def levels(self, chosen: Configuration) -> dict[str, Level]:
        """Levels of a configuration, collapsed."""
        mixed = {n: self.bad[n] if n in chosen else self.good[n] for n in self.design.launch_names}
        return self.design.collapsed({n: mixed.get(n, self.bad[n]) for n in self.design.names})

    def can_launch(self, chosen: Configuration) -> bool:
        """Whether the server exists: every chosen factor applies, and it is not invalid."""
        levels = self.levels(chosen)
        if any(levels[name] != self.bad[name] for name in chosen):
            return False
        spec = self.spec(chosen)
        return backend_for(spec.engine).invalid_reason(spec, self.version) is None

    def spec(self, chosen: Configuration) -> LaunchSpec:
        """Render the launch of a configuration."""
        cell = Cell(cell_id="isolate", levels=self.levels(chosen))
        return planning.launch_spec(self.matrix, cell, self.version)


@contextmanager
def _running(
    between: _Between, host: Host, lab: Lab, kind: ProbeKind, results: Path, chosen: Configuration
) -> Iterator[Probe]:
    """Launch a configuration and give its probe; a failed load is an answer of its own."""
    spec = between.spec(chosen)
    folder = results / "isolate" / spec.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    launcher = lab.launcher(host, None)
    try:
        with ExitStack() as stack:
            try:
                service = stack.enter_context(launcher.running(spec, folder))
                for _ in service.until_ready():
                    pass
            except LoadFailed as error:
                note = f"did not load: {error.what}"
                answer = Probed(
                    verdict="fails" if kind.crash else "inconclusive", note=note, gone=True
                )
                yield lambda _: answer
                return
            yield lambda settings: kind.ask(service, spec, settings)
    finally:
        launcher.close()


def _server(matrix: Matrix, text: str, option: str) -> Cell:
    """Find the one server that an expression names; of its cells, the first."""
    try:
        expression = parse(text)
        expression.check_names(matrix.factors)
    except ExpressionError as error:
        where = f"{option}, character {error.offset + 1}"
        raise InputError(error.what, where=where, hint=error.hint) from error
    cells = [cell for cell in planning.expand(matrix) if expression.holds(cell.levels)]
    servers = {cell.launch: cell for cell in reversed(cells)}
    if len(servers) != 1:
        shown = f"{len(servers)} servers of the matrix" if servers else "no cell of the matrix"
        raise InputError(
            f"{text!r} names {shown}",
            where=option,
            hint="name every launch factor: \"algorithm == 'ddtree' and budget == 16\"",
        )
    return next(iter(servers.values()))


def _settings(bench: Bench, bad: Cell, kind: ProbeKind) -> Settings:
    """Give the probe's free factors, as the bad cell has them."""
    everything = msgspec.structs.asdict(bench.workload) | bad.levels
    everything.setdefault("concurrency", 1)
    names = ("requests", "max_tokens", "temperature", "top_k", "top_p", "concurrency")
    driven = {name: everything[name] for name in names if everything.get(name) is not None}
    if set(kind.free) == {"concurrency"}:
        return {"concurrency": driven["concurrency"]}
    return driven


def _launch_minutes(past: Past, host: Host, matrix: Matrix) -> float | None:
    phases = past.load_phases(host.name, matrix.model.path)
    return sum(phases.values()) / 60 if phases else None
