"""The table of algorithms: the one that ships, and what a matrix changes in it."""

from functools import cache
from importlib import resources

import msgspec

from specbench.backends.products import backend_for
from specbench.config.document import Problems, parse_document
from specbench.config.records import TOP, decode
from specbench.config.shapes import AlgorithmsFile
from specbench.errors import InputError
from specbench.model.matrix import Algorithm, CommonFactor, Level


@cache
def builtin(engine: str = "") -> AlgorithmsFile:
    """Return the table that ships for an engine, its `extends` resolved."""
    backend = backend_for(engine)
    name = f"algorithms-{backend.name}.yaml"
    text = resources.files("specbench.data").joinpath(name).read_text("utf-8")
    problems = Problems()
    tree = parse_document(text, name, problems)
    table = decode(tree, AlgorithmsFile, problems, TOP) if tree else None
    problems.raise_any()
    if table is None:
        raise InputError("the table of algorithms that ships is damaged")
    table.algorithms = extended({}, table.algorithms, backend.name_flag)
    return table


def extended(
    base: dict[str, Algorithm], changes: dict[str, Algorithm], name_flag: str
) -> dict[str, Algorithm]:
    """Apply entries to a table, each on top of the one that it extends.

    `name_flag` is the flag by which the server tells algorithms apart.

    Raises:
        InputError: when an entry extends one that does not exist, or itself in a circle; its
            `where` is the name of the entry.
    """
    table = dict(base)
    open_names: list[str] = []

    def resolve(name: str) -> Algorithm:
        entry = changes[name]
        source = entry.extends or name
        if name in open_names:
            raise InputError(f"algorithm {name!r} extends itself in a circle", where=name)
        open_names.append(name)
        if source != name and source in changes:
            parent: Algorithm | None = resolve(source)
        else:
            parent = base.get(source)
        open_names.pop()
        if parent is None and entry.extends:
            raise InputError(
                f"algorithm {name!r} extends {source!r}, which does not exist", where=name
            )
        return _on_top(parent, entry, name_flag) if parent else entry

    for name in changes:
        table[name] = resolve(name)
    return table


def _on_top(parent: Algorithm, entry: Algorithm, name_flag: str) -> Algorithm:
    """Change a parent by an entry: mappings merge, flags set to null go, the rest replaces.

    The range of server versions belongs to a name of the server, so a new name starts without.
    """
    versions = {**parent.versions}
    for version, flags in entry.versions.items():
        versions[version] = {**versions.get(version, {}), **flags}
    same_name = name_flag not in entry.flags
    return Algorithm(
        description=entry.description or parent.description,
        flags=_merged(parent.flags, entry.flags),
        env={**parent.env, **entry.env},
        factors=tuple(dict.fromkeys((*parent.factors, *entry.factors))),
        speculative=parent.speculative and entry.speculative,
        since=entry.since or (parent.since if same_name else None),
        until=entry.until or (parent.until if same_name else None),
        versions=versions,
        forces=tuple(dict.fromkeys((*parent.forces, *entry.forces))),
    )


def _merged(base: dict[str, Level], changes: dict[str, Level]) -> dict[str, Level]:
    merged = {**base, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def common_factors(changes: dict[str, CommonFactor], engine: str = "") -> dict[str, CommonFactor]:
    """Return the launch factors of every algorithm: those that ship, and server flags by name."""
    table = builtin(engine)
    plain = {
        flag.replace("-", "_"): CommonFactor(flags={flag: "{" + flag.replace("-", "_") + "}"})
        for flag in table.server_flags
    }
    return {**plain, **table.common, **{k: msgspec.structs.replace(v) for k, v in changes.items()}}
