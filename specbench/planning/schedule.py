"""Cells to blocks: which server is launched where, in which order, with which trials."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from specbench.errors import InputError, nearest
from specbench.model.host import Host
from specbench.model.matrix import Cell, Matrix
from specbench.model.plan import Asked, Block, LaunchSpec, Trial
from specbench.planning.design import Design
from specbench.planning.expand import asked
from specbench.planning.identity import digest, joined, seed_of
from specbench.planning.render import Renderer

LAUNCH_WEIGHT = 8
"""A launch counts as that many trials when hosts share work: minutes against a minute."""


@dataclass
class Server:
    """One launch's cells, in order of appearance."""

    spec: LaunchSpec
    cells: list[Cell] = field(default_factory=list)


@dataclass
class Group:
    """Servers whose common launch factors are equal: a control and the arms to compare with it."""

    servers: dict[str, Server] = field(default_factory=dict)

    def weight(self, matrix: Matrix) -> int:
        """How much work the group is, in trials; the same on every run of the same matrix."""
        cells = sum(len(server.cells) for server in self.servers.values())
        launches = matrix.replicates.launches * len(self.servers) * LAUNCH_WEIGHT
        return cells * matrix.replicates.launches * matrix.replicates.trials + launches


@dataclass(frozen=True)
class Setup:
    """What a host itself brings to every trial: its engine, and a digest of its own `files`."""

    engine: str = ""
    files: str = ""

    @classmethod
    def of(cls, engine: str | None, files: Mapping[str, str] | None) -> "Setup":
        """Describe a host; what is not known or not there is empty."""
        return cls(engine or "", digest(files) if files else "")

    @property
    def name(self) -> str:
        """Stands for the whole in an id."""
        return joined(self.engine, self.files) if self.files else self.engine

    def added_to(self, definition: dict[str, str]) -> dict[str, str]:
        """Return the definition of a cell as it is on this host."""
        if self.engine:
            definition = definition | {"engine": self.engine}
        if self.files:
            definition = definition | {"files": joined(definition["files"], self.files)}
        return definition


def groups(matrix: Matrix, cells: Iterable[Cell], version: str | None) -> list[Group]:
    """Bring valid cells that share a server together, and servers that are to be compared."""
    design = Design(matrix)
    renderer = Renderer(design, version)
    common = [name for name in design.launch_names if design.is_common(name)]
    found: dict[str, Group] = {}
    servers: dict[str, Server] = {}
    for cell in cells:
        if cell.invalid is not None:
            continue
        server = servers.get(cell.launch)
        if server is None:
            spec = renderer.spec(cell.levels)
            if spec.fingerprint != cell.launch:
                raise ValueError("plan needs the matrix and the version that expand was given")
            server = servers[cell.launch] = Server(spec)
            group = found.setdefault(repr([cell.levels[name] for name in common]), Group())
            group.servers[cell.launch] = server
        server.cells.append(cell)
    for group in found.values():
        control_first = sorted(
            group.servers.items(), key=lambda item: item[1].spec.algorithm != matrix.control
        )
        group.servers = dict(control_first)
    return list(found.values())


def hosts_of(matrix: Matrix, hosts: Mapping[str, Host]) -> list[str]:
    """Return the matrix's hosts.

    Raises:
        InputError: when one is not in hosts.yaml.
    """
    for name in matrix.hosts:
        if name not in hosts:
            raise InputError(
                f"host {name!r} is not in hosts.yaml",
                where=matrix.places.get(f"hosts.{name}") or matrix.places.get("hosts"),
                hint=nearest(name, hosts, noun="hosts") + " (--hosts names the file)",
            )
    return list(matrix.hosts)


def shared_out(
    matrix: Matrix, found: Sequence[Group], names: Sequence[str]
) -> dict[str, list[Group]]:
    """Give each host its groups: all to each, or whole groups in turn to the least loaded one.

    A comparison never straddles hosts. The result depends on the matrix alone, never on what is
    done or was learned, so that a resumed run finds its trials where they were.
    """
    share: dict[str, list[Group]] = {name: [] for name in names}
    if matrix.spread == "every" or len(names) == 1:
        return {name: list(found) for name in names}
    load = dict.fromkeys(names, 0)
    by_weight = sorted(found, key=lambda group: -group.weight(matrix))
    for group in by_weight:
        name = min(names, key=lambda host: load[host])
        share[name].append(group)
        load[name] += group.weight(matrix)
    return share


def blocks(
    matrix: Matrix, share: Mapping[str, Sequence[Group]], setups: Mapping[str, Setup]
) -> Iterator[Block]:
    """Order the launches of each host.

    Inside a group, every arm is launched once before any is launched again, and every second round
    goes backwards (A B C, C B A, ...), so that a drift of the machine falls on all arms alike.
    """
    for host, found in share.items():
        for group in found:
            for launch in range(matrix.replicates.launches):
                servers = list(group.servers.values())
                for server in servers if launch % 2 == 0 else reversed(servers):
                    yield _block(matrix, server, host, launch, setups[host])


def _block(matrix: Matrix, server: Server, host: str, launch: int, setup: Setup) -> Block:
    block_id = digest("block", server.spec.fingerprint, host, launch, setup.name)
    keyed = sorted(_timed(matrix, server.cells, launch), key=lambda item: item[0])
    resolved = {cell.cell_id: asked(matrix, cell) for cell in server.cells}
    trials = [
        _trial(
            cell,
            resolved[cell.cell_id],
            host,
            block_id,
            launch,
            setup,
            replicate=replicate,
            order=order,
            seed=seed,
        )
        for order, ((_, seed), replicate, cell) in enumerate(keyed)
    ]
    if matrix.verify is not None and server.spec.speculative and launch == 0:
        trials.append(_verification(matrix, server.cells[0], host, block_id, setup, len(trials)))
    return Block(
        block_id=block_id, host=host, launch=launch, spec=server.spec, trials=tuple(trials)
    )


def _timed(
    matrix: Matrix, cells: Iterable[Cell], launch: int
) -> Iterator[tuple[tuple[int, int], int, Cell]]:
    """Yield ((round, seed), replicate, cell): sorted, that is one shuffle of the cells a round.

    The seed comes from load and request levels alone, so all arms get the same prompts in the same
    order at the same place of a block.
    """
    rounds = matrix.replicates.trials
    for cell in cells:
        driven = (cell.definition["load levels"], cell.definition["workload"])
        for index in range(rounds):
            seed = _seed(matrix.seed, *driven, launch, index)
            yield (index, seed), launch * rounds + index, cell


@cache
def _seed(matrix_seed: int, load: str, workload: str, launch: int, index: int) -> int:
    """One seed for all arms of equal load and requests."""
    return seed_of(matrix_seed, load, workload, launch, index)


def _trial(
    cell: Cell,
    resolved: Asked,
    host: str,
    block_id: str,
    launch: int,
    setup: Setup,
    *,
    replicate: int,
    order: int,
    seed: int,
) -> Trial:
    return Trial(
        trial_id=joined(cell.cell_id, host, str(launch), str(replicate), setup.name),
        cell=cell,
        host=host,
        block_id=block_id,
        replicate=replicate,
        launch=launch,
        order=order,
        seed=seed,
        key=_key(cell, host, launch, replicate, "timed"),
        definition=setup.added_to(cell.definition),
        asked=resolved,
    )


def _verification(
    matrix: Matrix, cell: Cell, host: str, block_id: str, setup: Setup, order: int
) -> Trial:
    depth = str(matrix.verify)
    return Trial(
        trial_id=digest("verify", depth, cell.launch, host, setup.name),
        cell=cell,
        host=host,
        block_id=block_id,
        replicate=0,
        launch=0,
        order=order,
        seed=seed_of(matrix.seed, "verify"),
        kind="verify",
        key=_key(cell, host, 0, 0, "verify"),
        definition=setup.added_to(cell.definition) | {"verify": depth},
        asked=asked(matrix, cell),
    )


def _key(cell: Cell, host: str, launch: int, replicate: int, kind: str) -> str:
    """Name the place in the design: it stays when a flag, the dataset or the engine changes."""
    levels = cell.definition["launch levels"]
    if kind == "timed":
        levels += cell.definition["load levels"]
    return f"{levels}/{host}/{launch}/{replicate}/{kind}"
