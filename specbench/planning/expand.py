"""A matrix to its cells: product, collapse, include and exclude, the control arm, names."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from specbench.errors import InputError
from specbench.expressions.expression import ExpressionError, parse
from specbench.model.load import Closed, Open, Sampling, SamplingOptions, Shape
from specbench.model.matrix import Cell, Level, Matrix, WorkloadOptions
from specbench.model.plan import Asked, LaunchSpec
from specbench.model.size import Size
from specbench.planning.design import Design, Key, Levels, picker
from specbench.planning.identity import digest, joined, named_by
from specbench.planning.render import InvalidReason, Renderer, engine_of, files_of
from specbench.planning.unsent import unsent

MOST_CELLS = 250_000
STAGGER_S_PER_SLOT = 0.02
LONGEST_STAGGER_S = 2.0

Origin = Literal["matrix", "include", "control"]


def expand(
    matrix: Matrix,
    *,
    datasets: Mapping[str, str] | None = None,
    version: str | None = None,
    invalid_reason: InvalidReason | None = None,
) -> list[Cell]:
    """Return the cells of a matrix, each once, invalid ones with the reason.

    `datasets` maps a dataset to the hash of its content; `version` is the server's;
    `invalid_reason` says of a launch why a server of that version cannot run it.

    Raises:
        InputError: when the matrix expands to nothing or to more than a quarter of a million cells.
    """
    design = Design(matrix)
    found = _levels(design)
    if not found:
        raise InputError(
            "the matrix expands to nothing: exclude takes out every cell",
            where=matrix.places.get("exclude") or matrix.places.get("factors"),
        )
    _add_controls(design, found)
    namer = _Namer(design, Renderer(design, version), datasets or {}, invalid_reason)
    return [namer.cell(key, origin) for key, origin in found.items()]


def launch_spec(matrix: Matrix, cell: Cell, version: str | None = None) -> LaunchSpec:
    """Return the server that a cell needs."""
    return Renderer(Design(matrix), version).spec(cell.levels)


def _levels(design: Design) -> dict[Key, Origin]:
    """All combinations of levels after collapse, in order, each once."""
    algorithms = [str(level) for level in design.matrix.factors["algorithm"]]
    _refuse_too_many(design, algorithms)
    found: dict[Key, Origin] = {}
    plain = not design.when and not design.keep and not design.exclude
    for algorithm in algorithms:
        for values in _product(design, design.matrix.factors, algorithm):
            if plain:
                found[values] = "matrix"
                continue
            key = values
            if design.when:
                levels = design.collapsed(dict(zip(design.names, values, strict=True)))
                key = tuple(levels.values())
            if design.wanted(key):
                found[key] = "matrix"
    for cells in design.matrix.include:
        factors = {**design.matrix.factors, **cells}
        for algorithm in map(str, factors["algorithm"]):
            for values in _product(design, factors, algorithm):
                levels = design.collapsed(dict(zip(design.names, values, strict=True)))
                found.setdefault(tuple(levels.values()), "include")
    return found


def _product(
    design: Design, factors: Mapping[str, tuple[Level, ...]], algorithm: str
) -> Iterator[Key]:
    """Combine the levels of the factors that apply to an algorithm; the others are None."""
    axes = [
        (algorithm,)
        if name == "algorithm"
        else (factors[name] if design.applies(name, algorithm) else (None,))
        for name in design.names
    ]
    return itertools.product(*axes)


def _refuse_too_many(design: Design, algorithms: Iterable[str]) -> None:
    factors = design.matrix.factors
    count = sum(
        math.prod(
            len(levels)
            for name, levels in factors.items()
            if name != "algorithm" and design.applies(name, algorithm)
        )
        for algorithm in algorithms
    )
    if count > MOST_CELLS:
        raise InputError(
            f"the matrix has {count:,} cells; at most {MOST_CELLS:,} are planned",
            where=design.matrix.places.get("factors"),
            hint="split it, or take levels out",
        )


def _add_controls(design: Design, found: dict[Key, Origin]) -> None:
    """Give every arm its control: plain decoding with all that can be equal held equal."""
    control = design.matrix.control
    at = design.names.index("algorithm")
    idle = [i for i, name in enumerate(design.names) if not design.applies(name, control)]
    own = [i for i, name in enumerate(design.names) if name in design.own_factors[control]]
    for key in list(found):
        if key[at] == control:
            continue
        changed = list(key)
        changed[at] = control
        for index in idle:
            changed[index] = None
        for partner in _filled(design, changed, own) if own else (tuple(changed),):
            levels = partner
            if design.when:
                named = dict(zip(design.names, partner, strict=True))
                levels = tuple(design.collapsed(named).values())
            found.setdefault(levels, "control")


def _filled(design: Design, key: list[Level], own: list[int]) -> Iterator[Key]:
    """Give a control with factors of its own (a chain, not `ar`) all levels that its arm lacks."""
    levels = [design.matrix.factors[design.names[index]] for index in own]
    choices = [
        some if key[index] is None and None not in some else (key[index],)
        for index, some in zip(own, levels, strict=True)
    ]
    for chosen in itertools.product(*choices):
        filled = list(key)
        for index, level in zip(own, chosen, strict=True):
            filled[index] = level
        yield tuple(filled)


@dataclass
class _Launch:
    """What all cells of one server share."""

    spec: LaunchSpec
    invalid: str | None
    definition: dict[str, str]
    digest: str


@dataclass
class _Driven:
    """What all cells of equal load and requests share."""

    invalid: str | None
    definition: dict[str, str]
    digest: str


class _Namer:
    """Names cells by the content of their definition; launches and workloads are hashed once."""

    def __init__(
        self,
        design: Design,
        renderer: Renderer,
        datasets: Mapping[str, str],
        invalid_reason: InvalidReason | None,
    ) -> None:
        self.design = design
        self.renderer = renderer
        self.datasets = datasets
        self.invalid_reason = invalid_reason
        self.launches: dict[Key, _Launch] = {}
        self.driven: dict[Key, _Driven] = {}
        names = design.names
        self.launch_of = picker([names.index(name) for name in design.launch_names])
        self.driven_of = picker([names.index(name) for name in design.driven_names])
        self.model = digest(design.matrix.model)
        self.files = digest(files_of(design.matrix))

    def cell(self, key: Key, origin: Origin) -> Cell:
        launch_key = self.launch_of(key)
        driven_key = self.driven_of(key)
        launch = self.launches.get(launch_key) or self._launch(launch_key)
        driven = self.driven.get(driven_key) or self._drive(driven_key)
        return Cell(
            cell_id=joined(launch.digest, driven.digest),
            levels=dict(zip(self.design.names, key, strict=True)),
            invalid=launch.invalid or driven.invalid,
            origin=origin,
            launch=launch.spec.fingerprint,
            definition=launch.definition | driven.definition,
        )

    def _launch(self, key: Key) -> _Launch:
        levels = dict(zip(self.design.launch_names, key, strict=True))
        spec = self.renderer.spec(levels)
        invalid = self.renderer.version_reason(spec.algorithm)
        if invalid is None and self.invalid_reason is not None:
            invalid = self.invalid_reason(spec, self.renderer.version)
        definition = {
            "launch levels": digest(_given(levels)),
            "model": self.model,
            "flags": digest(dict(spec.flags)),
            "environment": digest(dict(spec.env)),
            "command": digest(spec.command),
            "files": self.files,
        }
        if engine := engine_of(self.design.matrix):
            definition["engine"] = digest(engine)
        self.launches[key] = _Launch(spec, invalid, definition, digest(definition))
        return self.launches[key]

    def _drive(self, key: Key) -> _Driven:
        levels = dict(zip(self.design.driven_names, key, strict=True))
        options = with_levels(self.design.matrix.workload, levels)
        definition = {
            "load levels": digest(_given(levels)),
            "workload": digest(named_by(options)),
            "dataset": self.datasets.get(options.dataset, "")[:16],
        }
        invalid = unsent(engine_of(self.design.matrix), options)
        self.driven[key] = _Driven(invalid, definition, digest(definition))
        return self.driven[key]


def _given(levels: Levels) -> Levels:
    """Levels that apply: a factor that is added for other arms does not rename this one."""
    return {name: level for name, level in levels.items() if level is not None}


def with_levels(options: WorkloadOptions, levels: Mapping[str, Level]) -> WorkloadOptions:
    """Put request levels in the place of the workload's entries."""
    fields = set(options.__struct_fields__)
    changes = {
        name: level for name, level in levels.items() if name in fields and level is not None
    }
    return msgspec.structs.replace(options, **changes) if changes else options


def workload(matrix: Matrix, cell: Cell) -> WorkloadOptions:
    """Return what is asked in a trial of the cell."""
    return with_levels(matrix.workload, cell.levels)


def asked(matrix: Matrix, cell: Cell) -> Asked:
    """Resolve everything that a trial of the cell asks of its server."""
    options = workload(matrix, cell)
    shape = _shape(matrix, cell)
    return Asked(
        workload=options,
        sampling=_sampling(options),
        shape=shape,
        requests=requests_of(options, shape),
    )


def requests_of(options: WorkloadOptions, shape: Shape) -> int | None:
    """Count the requests of a trial; None where its seconds or tokens alone end it."""
    match options.requests:
        case int() as number:
            return number
        case Size() as size:
            return size.requests(shape)
        case None:
            timed = options.seconds is not None or options.tokens is not None
            return None if timed else Size().requests(shape)


def _sampling(options: WorkloadOptions) -> Sampling:
    """Return the sampling that the options say; what they cannot say is at its default."""
    return Sampling(**{name: getattr(options, name) for name in SamplingOptions.__struct_fields__})


def _shape(matrix: Matrix, cell: Cell) -> Shape:
    """Return the load of a cell: open at `rate`, within `concurrency` if both are given.

    Without either it is closed with one request in flight. A closed loop starts staggered, 20 ms a
    slot and at most 2 s, unless the workload says `stagger: false`.
    """
    rate = cell.levels.get("rate")
    slots = cell.levels.get("concurrency")
    if rate is not None:
        bound = int(slots) if slots is not None else None
        return Open(rate=float(rate), max_in_flight=bound)
    count = 1 if slots is None else int(slots)
    stagger_s = min(LONGEST_STAGGER_S, STAGGER_S_PER_SLOT * count)
    return Closed(concurrency=count, stagger_s=stagger_s if matrix.workload.stagger else 0.0)


def only(cells: Iterable[Cell], expression: str, matrix: Matrix) -> list[Cell]:
    """Keep the cells for which an expression holds, and the controls that they need.

    Raises:
        InputError: when the expression is wrong, or nothing is left.
    """
    try:
        condition = parse(expression)
        condition.check_names(matrix.factors)
    except ExpressionError as error:
        where = f"--only, character {error.offset + 1}"
        raise InputError(error.what, where=where, hint=error.hint) from error
    everything = list(cells)
    design = Design(matrix)
    kept = {_key(cell): cell.origin for cell in everything if condition.holds(cell.levels)}
    if not kept:
        raise InputError(f"no cell has {expression}", where="--only", hint="see specbench plan")
    _add_controls(design, kept)
    return [cell for cell in everything if _key(cell) in kept]


def _key(cell: Cell) -> Key:
    return tuple(cell.levels.values())
