"""The rules that tie the parts of a matrix together: every name is defined, every template fits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from specbench.config.document import Entries, Items, Place, Problems, Scalar
from specbench.config.records import key_place, leaves, place_of, scalar_at
from specbench.config.secrets import refuse_literal_secrets
from specbench.config.shapes import MatrixFile
from specbench.errors import nearest
from specbench.expressions.expression import ExpressionError, parse
from specbench.expressions.template import compile_template
from specbench.model.matrix import (
    LOAD_FACTORS,
    REQUEST_FACTORS,
    Algorithm,
    CommonFactor,
    Level,
    Matrix,
    is_variable,
)

_ALGORITHM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# Beyond a dot stands a key of a document that is given key by key.
_FLAG = re.compile(r"[a-z0-9][a-z0-9-]{0,99}(?:\.[A-Za-z0-9_.-]{1,99})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_REFERENCE = re.compile(r"\$\{[A-Za-z_]")


def check_rules(matrix: Matrix, shape: MatrixFile, tree: Entries, problems: Problems) -> None:
    """Note every broken rule of a matrix whose shape is right."""
    advice = "put it under env of the host in hosts.yaml, as ${NAME}"
    refuse_literal_secrets(tree, problems, advice)
    _check_references(tree, problems)
    _check_names(matrix, tree, problems)
    _check_flag_names(shape, tree, problems)
    _check_versions(shape, tree, problems)
    templated = _check_templates(matrix, tree, problems)
    _check_factors(matrix, tree, templated, problems)
    _check_expressions(matrix, tree, problems)


def _check_names(matrix: Matrix, tree: Entries, problems: Problems) -> None:
    """Hosts, the control and the levels of `algorithm` exist, and nothing stands twice."""
    if not matrix.hosts:
        problems.add("hosts names no host", place_of(tree, "hosts"), "hosts: [local]")
    for index, host in enumerate(matrix.hosts):
        place = place_of(tree, "hosts", index)
        if host in matrix.hosts[:index]:
            problems.add(f"host {host!r} stands here twice", place)
        if not host:
            problems.add("a host needs a name", place)
    for name in matrix.algorithms:
        if not _ALGORITHM.fullmatch(name):
            place = key_place(tree, "algorithms", name)
            problems.add(
                f"{name!r:.60} is no name of an algorithm", place, "letters, digits, _ - +"
            )
    known = matrix.algorithms
    if matrix.control not in known:
        hint = nearest(matrix.control, known, noun="algorithms")
        place = place_of(tree, "control")
        problems.add(f"the control {matrix.control!r} is no algorithm", place, hint)
    for level, place in _algorithm_levels(tree):
        if isinstance(level, str) and level not in known:
            hint = nearest(level, known, noun="algorithms") + " (a new one goes under algorithms:)"
            problems.add(f"unknown algorithm {level!r}", place, hint)


def _algorithm_levels(tree: Entries) -> list[tuple[Level, Place]]:
    nodes = [tree.entries["factors"][1]] if "factors" in tree.entries else []
    include = tree.entries.get("include")
    if include and isinstance(include[1], Items):
        nodes += include[1].items
    found: list[tuple[Level, Place]] = []
    for node in nodes:
        if isinstance(node, Entries) and "algorithm" in node.entries:
            value = node.entries["algorithm"][1]
            items = value.items if isinstance(value, Items) else (value,)
            found += [(item.value, item.place) for item in items if isinstance(item, Scalar)]
    return found


def _check_flag_names(shape: MatrixFile, tree: Entries, problems: Problems) -> None:
    """Note flags that are not written without dashes, and variables that are no names."""
    holders: list[tuple[tuple[str, ...], dict[str, Level], dict[str, str]]] = [
        (("server",), shape.server.flags, shape.server.env)
    ]
    holders += [(("algorithms", n), a.flags, a.env) for n, a in shape.algorithms.items()]
    holders += [(("common", n), c.flags, {}) for n, c in shape.common.items()]
    for path, flags, env in holders:
        for flag in flags:
            if not _FLAG.fullmatch(flag):
                hint = f"write {flag.lstrip('-').replace('_', '-').lower()}"
                problems.add(
                    f"{flag!r:.60} is no flag name: lower case, without leading dashes",
                    key_place(tree, *path, "flags", flag),
                    hint,
                )
        for name in env:
            if not _VARIABLE.fullmatch(name):
                place = key_place(tree, *path, "env", name)
                problems.add(f"{name!r:.60} is no name of a variable", place)


def _used_algorithms(matrix: Matrix) -> list[str]:
    levels = [*matrix.factors.get("algorithm", ()), matrix.control]
    for cell in matrix.include:
        levels += cell.get("algorithm", ())
    return [name for name in dict.fromkeys(map(str, levels)) if name in matrix.algorithms]


@dataclass(frozen=True)
class _Texts:
    """The templates of one section: who owns them, and where they stand."""

    who: str
    path: tuple[str, ...]
    texts: Mapping[str, Level]
    in_use: bool = True


def _sections(matrix: Matrix) -> list[_Texts]:
    """List every section of templates, those of other server versions too."""
    found = [
        _Texts("server", ("server", "flags"), matrix.server.flags),
        _Texts("server", ("server", "env"), matrix.server.env),
    ]
    used = _used_algorithms(matrix)
    for name, algorithm in matrix.algorithms.items():
        who, path = f"algorithm {name!r}", ("algorithms", name)
        found += [
            _Texts(who, (*path, "flags"), algorithm.flags, name in used),
            _Texts(who, (*path, "env"), algorithm.env, name in used),
        ]
        for version, flags in algorithm.versions.items():
            found.append(_Texts(who, (*path, "versions", version), flags, name in used))
    for name, factor in matrix.common.items():
        who, path = f"factor {name!r}", ("common", name)
        found.append(_Texts(who, (*path, "flags"), factor.flags, name in matrix.factors))
        for version, flags in factor.versions.items():
            place = (*path, "versions", version)
            found.append(_Texts(who, place, flags, name in matrix.factors))
    return found


def _check_templates(matrix: Matrix, tree: Entries, problems: Problems) -> set[str]:
    """Compile every template, and note factors that one in use needs and the matrix lacks.

    Returns the names that templates use, which are factors by that.
    """
    names: set[str] = set()
    missing: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for section in _sections(matrix):
        for flag, text in section.texts.items():
            try:
                template = compile_template(text)
            except ExpressionError as error:
                place = _at(tree, error.offset, *section.path, flag)
                hint = error.hint or "a brace itself is written {{ or }}"
                problems.add(f"{section.who}, {flag}: {error.what}", place, hint)
                continue
            if section.path[0] != "common":
                names |= template.names
            for factor in template.required - set(matrix.factors) if section.in_use else ():
                missing.setdefault((section.who, factor, section.path), []).append(flag)
    for (who, factor, path), flags in sorted(missing.items()):
        written = scalar_at(tree, *path, flags[0]) is not None
        place = key_place(tree, *path, flags[0]) if written else place_of(tree, "factors")
        problems.add(
            f"{who} needs the factor {factor!r} (for {', '.join(flags)})",
            place,
            f"add {factor}: [...] to factors, or change the flag under {'.'.join(path)}",
        )
    return names


def _check_versions(shape: MatrixFile, tree: Entries, problems: Problems) -> None:
    """Refuse versions that would never match anything."""
    entries: list[tuple[tuple[str, ...], Algorithm | CommonFactor]] = []
    entries += [(("algorithms", name), entry) for name, entry in shape.algorithms.items()]
    entries += [(("common", name), entry) for name, entry in shape.common.items()]
    for path, entry in entries:
        for ranges in entry.versions:
            place = key_place(tree, *path, "versions", ranges)
            try:
                SpecifierSet(ranges)
            except InvalidSpecifier:
                problems.add(f"{ranges!r:.60} is no range of versions", place, 'write ">=0.5.18"')
        for key in ("since", "until"):
            version = getattr(entry, key, None)
            try:
                Version(version or "0")
            except InvalidVersion:
                problems.add(f"{version!r:.60} is no version", place_of(tree, *path, key), "0.5.18")


def _check_references(tree: Entries, problems: Problems) -> None:
    """Refuse `${NAME}`, which nothing resolves in a matrix: it is written down as it is."""
    for leaf in leaves(tree):
        found = _REFERENCE.search(leaf.text)
        if found:
            problems.add_unreadable(
                "a matrix does not refer to the environment",
                leaf.at(found.start()),
                "put it under env of the host in hosts.yaml",
            )
            problems.unreadable.add(leaf.place)


def _check_factors(matrix: Matrix, tree: Entries, templated: set[str], problems: Problems) -> None:
    """Refuse factors that nothing would act on."""
    known = {"algorithm"} | LOAD_FACTORS | REQUEST_FACTORS | set(matrix.common) | templated
    for algorithm in matrix.algorithms.values():
        known |= set(algorithm.factors)
    for name in matrix.factors:
        if name not in known and not is_variable(name):
            flag = name.replace("_", "-").lower()
            hint = nearest(name, known, noun="factors")
            hint += f' (for a further server flag: server: {{flags: {{{flag}: "{{{name}}}"}}}})'
            problems.add(f"unknown factor {name!r}", key_place(tree, "factors", name), hint)
    for index, cell in enumerate(matrix.include):
        for name in cell:
            if name not in matrix.factors:
                hint = nearest(name, matrix.factors, noun="factors")
                place = place_of(tree, "include", _nth_mapping(tree, index))
                problems.add(f"include: {name!r} is no factor of the matrix", place, hint)


def _nth_mapping(tree: Entries, index: int) -> int:
    node = tree.entries["include"][1]
    items = node.items if isinstance(node, Items) else ()
    return [i for i, item in enumerate(items) if isinstance(item, Entries)][index]


def _check_expressions(matrix: Matrix, tree: Entries, problems: Problems) -> None:
    """Parse include, exclude and when; their names are factors of the matrix."""
    for factor in matrix.when:
        if factor not in matrix.factors:
            hint = nearest(factor, matrix.factors, noun="factors")
            problems.add(f"when: {factor!r} is no factor", key_place(tree, "when", factor), hint)
        elif factor == "algorithm":
            problems.add("when: the algorithm always applies", key_place(tree, "when", factor))
    paths: list[tuple[str | int, ...]] = [("when", factor) for factor in matrix.when]
    paths += [("exclude", index) for index in range(len(matrix.exclude))]
    include = tree.entries["include"][1] if "include" in tree.entries else None
    if isinstance(include, Items):
        paths += [("include", i) for i, e in enumerate(include.items) if isinstance(e, Scalar)]
    for path in paths:
        scalar = scalar_at(tree, *path)
        if scalar is None:
            continue
        try:
            parse(scalar.text).check_names(matrix.factors)
        except ExpressionError as error:
            problems.add(f"{path[0]}: {error.what}", scalar.at(error.offset), error.hint)


def _at(tree: Entries, offset: int, *steps: str) -> Place:
    scalar = scalar_at(tree, *steps)
    return scalar.at(offset) if scalar else place_of(tree, *steps)
