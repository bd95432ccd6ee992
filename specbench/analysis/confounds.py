"""The confound guard: everything recorded must be equal between arms, but what was declared."""

import fnmatch
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pandas as pd

from specbench.analysis.arms import MatchedCell
from specbench.backends.backend import RecordedValues
from specbench.backends.products import backend_for
from specbench.errors import ConfoundError
from specbench.model.block_facts import BlockFacts

Kind = Literal["declared", "coupled", "allowed", "unrecorded", "confound"]

COMMON = RecordedValues(
    volatile=(
        "*.pid", "*.port", "*_port", "*.url", "*.status", "*.hostname", "*.boot_id",
        "*.random_seed", "*.started_at", "*.captured_at", "*.timestamp*", "*.uptime*",
        "*.load_avg*", "*.mem_available*", "*.free_*", "*.used_*", "*.temperature_c*",
        "*.power_w*", "*.log_level*",
    ),
    forced=("*speculative*", "*draft*", "*.spec_*", "*eagle*", "*ngram*"),
    lossy=("*simulat*",),
)  # fmt: skip
"""What holds of the values of every product, and of those of its host and its client."""

Group = Literal["volatile", "capacity", "forced", "lossy", "caps"]

_ABSENT = object()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded column whose values differ between the arms, and what that means.

    `declared`: follows from a factor that the arms name; `coupled`: the algorithm forces it;
    `allowed`: the user accepted it; `unrecorded`: one side did not record it, so that it cannot be
    ruled out; `confound`: it may be the cause of whatever is seen.
    """

    column: str
    a: str
    b: str
    kind: Kind


def block_facts(block: BlockFacts) -> dict[str, str]:
    """Flatten what a block recorded of its launch into columns with canonical text values."""
    facts: dict[str, Any] = {"version": block.version, "code_hash": block.code_hash}
    if spec := block.spec:
        facts["spec.model_path"] = spec.model_path
        facts["spec.command"] = spec.command
        facts["spec.engine"] = spec.engine or None
        facts["spec.files"] = spec.files
        facts |= {f"flag.{name}": value for name, value in spec.flags}
        facts |= {f"env.{name}": value for name, value in spec.env}
    for prefix, said in (
        ("env", block.environment),
        ("server", block.server_info),
        ("model", block.model_info),
        ("host", block.host_facts),
        ("client", block.client),
    ):
        facts |= _flat(prefix, said)
    state = _values_of(block).state
    facts = {n: value for n, value in facts.items() if not _repeats(n, value, facts, state)}
    return {name: _text(value) for name, value in facts.items() if value is not None}


def _values_of(block: BlockFacts) -> RecordedValues:
    return backend_for(block.spec.engine if block.spec else "").recorded


def _repeats(name: str, value: Any, facts: Mapping[str, Any], state: str) -> bool:
    """Whether a scheduler's state only repeats the argument; a live change is kept."""
    if not state or not name.startswith(state):
        return False
    argument = name.removeprefix(state).partition(".")[2]
    return bool(facts.get(f"server.{argument}", _ABSENT) == value)


def _flat(prefix: str, value: Any) -> dict[str, Any]:
    """Turn nested mappings into dotted names; lists of mappings (one a rank) by their index."""
    match value:
        case Mapping():
            pairs = [_flat(f"{prefix}.{key}", inner) for key, inner in value.items()]
        case [Mapping(), *_]:
            pairs = [_flat(f"{prefix}.{i}", inner) for i, inner in enumerate(value)]
        case _:
            return {prefix: value}
    return {name: inner for pair in pairs for name, inner in pair.items()}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)


def differences(
    trials: pd.DataFrame,
    blocks: Mapping[str, BlockFacts],
    cell: MatchedCell,
    *,
    declared: Iterable[str] = (),
    allow: Iterable[str] = (),
) -> tuple[Difference, ...]:
    """List every recorded column that differs between the arms of a matched cell.

    Block facts are compared as sets of values over the arm's launches; columns of `trials` with a
    dot in their name (`workload.window`, `sampling.top_p`, `client.host`) over its trials.
    """
    sides = [
        _merge(_block_sides(trials, blocks, rows), _trial_sides(trials, rows))
        for rows in (cell.rows_a, cell.rows_b)
    ]
    context = _Context(
        declared={_plain(name) for name in declared},
        levels=_level_texts(cell),
        allow=tuple(allow),
        concurrency=cell.levels.get("concurrency"),
        forced=_forced(trials, blocks, (*cell.rows_a, *cell.rows_b)) - _asked_differently(sides),
        values=_values(trials, blocks, (*cell.rows_a, *cell.rows_b)),
        recorded=tuple(frozenset(name.split(".")[0] for name in side) for side in sides),
    )
    found = []
    volatile = _patterns(context.values, "volatile")
    for name in sorted(sides[0].keys() | sides[1].keys()):
        a, b = sides[0].get(name, frozenset()), sides[1].get(name, frozenset())
        if a != b and not _like(name, volatile):
            kind = _kind(name, a, b, context)
            found.append(Difference(column=name, a=_shown(a), b=_shown(b), kind=kind))
    return tuple(found)


def refuse(a: str, b: str, found: Sequence[Difference]) -> None:
    """Stop a comparison that has confounds.

    Raises:
        ConfoundError: with every such column and its values on the two sides.
    """
    columns = {d.column: (d.a, d.b) for d in found if d.kind == "confound"}
    if not columns:
        return
    listing = "".join(
        f"\n    {name}: {left} against {right}" for name, (left, right) in columns.items()
    )
    raise ConfoundError(
        f"{a} and {b} differ in more than was declared:{listing}",
        columns=columns,
        hint=f"hold {'them' if len(columns) > 1 else 'it'} equal, or accept in writing with "
        + " ".join(f"--allow {shlex.quote(name)}" for name in columns),
    )


class _Context(msgspec.Struct, frozen=True, kw_only=True):
    declared: set[str]
    levels: dict[str, tuple[str, str]]
    allow: tuple[str, ...]
    concurrency: Any
    forced: frozenset[str]
    values: tuple[RecordedValues, ...]
    recorded: tuple[frozenset[str], ...]


def _kind(name: str, a: frozenset[str], b: frozenset[str], context: _Context) -> Kind:
    plain = _plain(name)
    if any(_allowed(name, pattern) for pattern in context.allow):
        return "allowed"
    if plain in context.declared or (_shown(a), _shown(b)) in context.levels.values():
        return "declared"
    if _coupled(name, a | b, context):
        return "coupled"
    group = name.split(".", maxsplit=1)[0]
    if any(group not in recorded for recorded in context.recorded) and group not in ("flag", "env"):
        return "unrecorded"
    return "confound"


def _coupled(name: str, values: frozenset[str], context: _Context) -> bool:
    lower = name.lower()
    if _like(lower, _patterns(context.values, "capacity")):
        return True
    if _like(lower, _patterns(context.values, "caps")):
        return _cap_is_idle(values, context.concurrency)
    named = name.startswith("server.") and _argument(name) in context.forced
    follows = named or _like(lower, _patterns(context.values, "forced"))
    lossy = _patterns(context.values, "lossy")
    return bool(context.declared) and follows and not _like(lower, lossy)


def _patterns(
    values: Iterable[RecordedValues],
    what: Literal["volatile", "capacity", "forced", "lossy", "caps"],
) -> tuple[str, ...]:
    return tuple(pattern for one in values for pattern in getattr(one, what))


def _values(
    trials: pd.DataFrame, blocks: Mapping[str, BlockFacts], rows: Sequence[int]
) -> tuple[RecordedValues, ...]:
    """Gather what is known of the values of the products that were measured."""
    own = {b: _values_of(blocks[b]) for b in _block_ids(trials, rows) if b in blocks}
    return (COMMON, *dict.fromkeys(own.values()))


def _argument(name: str) -> str:
    return name.rsplit(".", maxsplit=1)[-1].replace("-", "_")


def _forced(
    trials: pd.DataFrame, blocks: Mapping[str, BlockFacts], rows: Sequence[int]
) -> frozenset[str]:
    """Arguments that the algorithms' definitions say the server resolves by itself."""
    specs = [blocks[b].spec for b in _block_ids(trials, rows) if b in blocks]
    return frozenset(name for spec in specs if spec for name in spec.forces)


def _asked_differently(sides: Sequence[dict[str, frozenset[str]]]) -> frozenset[str]:
    """Arguments that the user set differently: then it is no algorithm that forces them."""
    flags = {name for side in sides for name in side if name.startswith("flag.")}
    return frozenset(_argument(name) for name in flags if sides[0].get(name) != sides[1].get(name))


def _block_ids(trials: pd.DataFrame, rows: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(trials["block_id"].iloc[list(rows)].astype(str)))


def _cap_is_idle(values: frozenset[str], concurrency: Any) -> bool:
    """Whether no cap on running requests is below the load, so that it cannot have acted."""
    caps = [int(value) for value in values if value.isdigit()]
    return isinstance(concurrency, int) and bool(caps) and min(caps) >= concurrency


def _allowed(name: str, pattern: str) -> bool:
    wanted = pattern.replace("-", "_")
    full = name.replace("-", "_")
    return fnmatch.fnmatchcase(full, wanted) or fnmatch.fnmatchcase(full.split(".")[-1], wanted)


def _plain(name: str) -> str:
    """Bare name of a column: `flag.tp-size` and `server.tp_size` are both about `tp`."""
    bare = name.rsplit(".", maxsplit=1)[-1].replace("-", "_")
    return bare.removesuffix("_size").removeprefix("enable_")


def _level_texts(cell: MatchedCell) -> dict[str, tuple[str, str]]:
    """Texts of the declared levels: a flag with just these values is the factor's doing.

    Switches are left out: true against false fits too many columns.
    """
    names = cell.own_a.keys() & cell.own_b.keys()
    pairs = {f: (cell.own_a[f], cell.own_b[f]) for f in names}
    return {
        f: (_text(a), _text(b))
        for f, (a, b) in pairs.items()
        if a != b and not isinstance(a, bool) and not isinstance(b, bool)
    }


def _block_sides(
    trials: pd.DataFrame, blocks: Mapping[str, BlockFacts], rows: Sequence[int]
) -> dict[str, frozenset[str]]:
    names = _block_ids(trials, rows)
    facts = [block_facts(blocks[name]) for name in names if name in blocks]
    columns = {column for fact in facts for column in fact}
    return {c: frozenset(fact.get(c, "not set") for fact in facts) for c in columns}


def _trial_sides(trials: pd.DataFrame, rows: Sequence[int]) -> dict[str, frozenset[str]]:
    columns = [str(name) for name in trials.columns if "." in str(name)]
    chosen = trials.iloc[list(rows)]
    return {
        name: frozenset(_text(value) for value in chosen[name].tolist() if not _missing(value))
        for name in columns
    }


def _merge(*parts: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: values for part in parts for name, values in part.items() if values}


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


def _like(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _shown(values: frozenset[str]) -> str:
    return ", ".join(sorted(values)) or "not set"
