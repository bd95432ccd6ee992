"""One server over several machines: a launcher for each of them, started and stopped together."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from specbench.backends.backend import Rank
from specbench.backends.products import backend_for
from specbench.errors import InputError, LoadFailed
from specbench.hosts.telemetry import Telemetry
from specbench.launchers.service import CONSEQUENCES, RunningService
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure, LoadProgress, ServiceFacts
from specbench.model.telemetry import GpuSummary, HostSummary

DIST_INIT_PORT = 20000
"""Where the ranks meet unless `dist_init_addr` says otherwise; a server may take the next ones."""


class Node(Protocol):
    """The launcher of one machine, as far as this one needs it."""

    host: Host

    def clear(self, purpose: str) -> tuple[str, ...]:
        """Take the host and stop what an earlier run left there; say what was done."""
        ...

    def running(self, spec: LaunchSpec, block_dir: Path) -> AbstractContextManager[RunningService]:
        """Start a server; on leaving, stop it."""
        ...

    def close(self) -> None:
        """Give up the host."""
        ...


class NodesLauncher:
    """Start one process of a server on each node; node 0 answers for all of them.

    Only node 0 is asked whether it is ready: the others serve a health endpoint that says yes
    whatever happens. A death on any node is a failure
    of the server, with that node's own lines.
    """

    def __init__(self, host: Host, nodes: Sequence[Node]) -> None:
        self.host = host
        self._nodes = tuple(nodes)

    @contextlib.contextmanager
    def running(self, spec: LaunchSpec, block_dir: Path) -> "Iterator[NodesService]":
        """Run the server; logs of node i >= 1 go to `block_dir`/node-i.

        Every node is stopped before any is started, and again before this returns. Raises what
        the first node that fails to start raises.
        """
        purpose = f"{spec.algorithm} on {len(self._nodes)} nodes"
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(lambda node: node.clear(purpose), self._nodes))
        folders = [block_dir, *(block_dir / f"node-{i}" for i in range(1, len(self._nodes)))]
        contexts = [
            node.running(node_spec(spec, self.host, rank=rank, count=len(self._nodes)), folder)
            for rank, (node, folder) in enumerate(zip(self._nodes, folders, strict=True))
        ]
        names = [node.host.name for node in self._nodes[1:]]
        with together(contexts) as (head, *others):
            yield NodesService(head, dict(zip(names, others, strict=True)))

    def close(self) -> None:
        """Give up every node."""
        with contextlib.ExitStack() as stack:
            for node in self._nodes:
                stack.callback(node.close)


class NodesService:
    """A service of several processes: node 0 speaks for all of them, and any death is its own."""

    def __init__(self, head: RunningService, others: Mapping[str, RunningService]) -> None:
        self.url = head.url
        self.facts = head.facts
        self._head = head
        self._others = dict(others)
        sources = [service.telemetry for service in (head, *others.values())]
        known = [source for source in sources if source is not None]
        self._telemetry = AllNodes(known) if len(known) == len(sources) else None

    def until_ready(self) -> Iterator[LoadProgress]:
        """Wait until node 0 is ready, and fail with what fails first on any node."""
        try:
            for progress in self._head.until_ready():
                if failure := self._look_at_others():
                    raise self._head.failed(failure)
                yield progress
        except LoadFailed as error:
            elsewhere = self._look_at_others() if error.pattern in CONSEQUENCES else None
            if elsewhere is None or elsewhere.pattern in CONSEQUENCES:
                raise
            raise self._head.failed(elsewhere) from error
        self.facts = self._joined_facts()

    def check(self) -> LoadFailure | None:
        """Look whether every node still lives; see RunningService."""
        own = self._head.check()
        if own is not None and own.pattern not in CONSEQUENCES:
            return own
        elsewhere = self._look_at_others()
        if own is None or elsewhere is None or elsewhere.pattern in CONSEQUENCES:
            return own or elsewhere
        return elsewhere

    @property
    def is_out_of_reach(self) -> bool:
        """Whether any node's host did not answer the last look."""
        return any(service.is_out_of_reach for service in (self._head, *self._others.values()))

    @property
    def phase_times(self) -> dict[str, float]:
        """Seconds that each phase of the load took on node 0."""
        return self._head.phase_times

    @property
    def pid(self) -> int | None:
        """The process id of node 0."""
        return self._head.pid

    @property
    def kept(self) -> bool:
        """Whether the processes are left running."""
        return self._head.kept

    def flush(self) -> bool:
        """Empty the prefix cache; see RunningService."""
        return self._head.flush()

    def keep(self) -> None:
        """Leave all nodes running."""
        for service in (self._head, *self._others.values()):
            service.keep()

    def notices(self) -> tuple[str, ...]:
        """Return the lines of node 0's log that must be recorded, up to now."""
        return self._head.notices()

    def gpu_summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary | None:
        """Summarise the GPUs of all nodes; None where one was not sampled."""
        return self._telemetry.gpus(since_unix_s, until_unix_s) if self._telemetry else None

    def host_summary(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary | None:
        """Summarise all hosts; None where one was not sampled."""
        if self._telemetry is None:
            return None
        return self._telemetry.host(since_unix_s, until_unix_s, driver_cpus=driver_cpus)

    def _look_at_others(self) -> LoadFailure | None:
        for rank, (name, service) in enumerate(self._others.items(), 1):
            failure = service.check()
            if failure is not None:
                return msgspec.structs.replace(
                    failure,
                    cause=f"node {rank} ({name}): {failure.cause}",
                    hint=f"{failure.hint}; its log is node-{rank}/server.log",
                )
        return None

    def _joined_facts(self) -> ServiceFacts:
        facts, others = self._head.facts, self._others
        contexts = {name: service.context for name, service in others.items()}
        told = [f"{name}: {text}" for name, its in contexts.items() for text in its.notices]
        flags = [flag for its in contexts.values() for flag in its.flags]
        hashes = [facts.code_hash, *(its.code_hash for its in contexts.values())]
        nodes = [its.host_facts for its in contexts.values()]
        return msgspec.structs.replace(
            facts,
            notices=(*facts.notices, *told),
            flags=tuple(dict.fromkeys((*facts.flags, *flags))),
            host_facts=facts.host_facts | {"nodes": nodes},
            code_hash=_one_hash(hashes),
        )


class AllNodes:
    """What all nodes did, as one; node 0 comes first."""

    def __init__(self, sources: Sequence[Telemetry]) -> None:
        self._sources = sources

    def host(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary:
        """Take the worst of each figure, over the nodes; the load is driven from node 0."""
        parts = [
            source.host(since_unix_s, until_unix_s, driver_cpus=0.0 if rank else driver_cpus)
            for rank, source in enumerate(self._sources)
        ]
        return HostSummary(
            n=sum(part.n for part in parts),
            load_1min=_largest([part.load_1min for part in parts]),
            cpu_pct=_largest([part.cpu_pct for part in parts]),
            foreign_cpu_pct=_largest([part.foreign_cpu_pct for part in parts]),
            mem_available_mib=min(
                (p.mem_available_mib for p in parts if p.mem_available_mib is not None),
                default=None,
            ),
        )

    def gpus(self, since_unix_s: float, until_unix_s: float) -> GpuSummary:
        """Add up the power; None where one node's is not known: a part is not the whole."""
        parts = [source.gpus(since_unix_s, until_unix_s) for source in self._sources]
        powers = [part.power_w for part in parts if part.power_w is not None]
        throttled = [part.throttled for part in parts if part.throttled is not None]
        return GpuSummary(
            n=sum(part.n for part in parts),
            power_w=sum(powers) if len(powers) == len(parts) else None,
            temp_c_max=_largest([part.temp_c_max for part in parts]),
            throttled=any(throttled) if throttled else None,
        )


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def node_spec(spec: LaunchSpec, host: Host, *, rank: int, count: int) -> LaunchSpec:
    """Add what makes a process one rank of many to a specification.

    Raises InputError for a product that runs on one node only.
    """
    backend = backend_for(spec.engine)
    place = Rank(index=rank, count=count, meeting_point=meeting_point(host))
    flags = backend.rank_flags(place)
    if flags is None:
        raise InputError(
            f"{backend.title} is not started over several nodes by specbench",
            where=f"nodes of host {host.name!r}",
            hint="start it yourself, and measure it with launcher: attach",
        )
    return msgspec.structs.replace(spec, flags=(*spec.flags, *flags))


def meeting_point(host: Host) -> str:
    """Say where the ranks meet: by default node 0's address, port DIST_INIT_PORT."""
    return host.dist_init_addr or f"{host.address or '127.0.0.1'}:{DIST_INIT_PORT}"


@contextlib.contextmanager
def together(
    contexts: Sequence[AbstractContextManager[RunningService]],
) -> Iterator[list[RunningService]]:
    """Enter contexts all at once, and leave them all at once.

    Where one cannot be entered the others are left again, and its error is raised.
    """
    ending: tuple[type[BaseException] | None, BaseException | None] = (None, None)
    with ThreadPoolExecutor(len(contexts)) as pool:
        entering = [pool.submit(context.__enter__) for context in contexts]
        try:
            yield [entry.result() for entry in entering]
        except BaseException as error:
            ending = (type(error), error)
            raise
        finally:
            wait(entering)
            leaving = [
                pool.submit(context.__exit__, *ending, None)
                for context, entry in zip(contexts, entering, strict=True)
                if entry.exception() is None
            ]
            wait(leaving)
            if ending[0] is None:  # else the error on the way here is the one to be told
                for leave in leaving:
                    leave.result()


def _one_hash(hashes: Sequence[str | None]) -> str | None:
    """Return the hash that all nodes share, else one of all of them."""
    if len(set(hashes)) == 1:
        return hashes[0]
    return hashlib.sha256("\n".join(map(str, hashes)).encode()).hexdigest()
