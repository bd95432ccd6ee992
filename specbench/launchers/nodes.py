"""One server over several machines: a launcher for each of them, started and stopped together."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from specbench.backends.backend import Rank
from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.hosts.telemetry import Telemetry
from specbench.launchers.service import RunningService
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure
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
    def running(self, spec: LaunchSpec, block_dir: Path) -> Iterator[RunningService]:
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
        with together(contexts) as (head, *others):
            self._join(head, others)
            yield head
            if head.kept:
                for other in others:
                    other.keep()

    def close(self) -> None:
        """Give up every node."""
        with contextlib.ExitStack() as stack:
            for node in self._nodes:
                stack.callback(node.close)

    def _join(self, head: RunningService, others: Sequence[RunningService]) -> None:
        """Let node 0 speak for all: facts, hashes, doubts, GPUs, and deaths."""
        names = [node.host.name for node in self._nodes[1:]]
        for name, other in zip(names, others, strict=True):
            head.adopt(other, name)
        head.host_facts = head.host_facts | {"nodes": [other.host_facts for other in others]}
        head.code_hash = _one_hash([head.code_hash, *(other.code_hash for other in others)])
        sources = [head.telemetry, *(other.telemetry for other in others)]
        known = [source for source in sources if source is not None]
        head.telemetry = AllNodes(known) if len(known) == len(sources) else None
        head.watch(_watch(dict(zip(names, others, strict=True))))


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


def _watch(others: dict[str, RunningService]) -> Callable[[], LoadFailure | None]:
    def look() -> LoadFailure | None:
        for rank, (name, service) in enumerate(others.items(), 1):
            failure = service.check()
            if failure is not None:
                return msgspec.structs.replace(
                    failure,
                    cause=f"node {rank} ({name}): {failure.cause}",
                    hint=f"{failure.hint}; its log is node-{rank}/server.log",
                )
        return None

    return look


def _one_hash(hashes: Sequence[str | None]) -> str | None:
    """Return the hash that all nodes share, else one of all of them."""
    if len(set(hashes)) == 1:
        return hashes[0]
    return hashlib.sha256("\n".join(map(str, hashes)).encode()).hexdigest()
