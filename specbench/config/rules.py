"""The rules that tie the parts of a matrix together: every name is defined, every template fits."""

import re

from specbench.config.document import Entries, Items, Place, Problems, Scalar
from specbench.config.records import key_place, place_of, scalar_at
from specbench.config.secrets import refuse_literal_secrets
from specbench.config.shapes import MatrixFile
from specbench.errors import nearest
from specbench.model.expression import ExpressionError, parse
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS, Level, Matrix
from specbench.model.template import Template, compile_template

_Holder = tuple[str, tuple[str, ...], dict[str, Level], dict[str, str]]
_FLAG = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_ENVIRONMENT_FACTOR = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")


def check_rules(matrix: Matrix, shape: MatrixFile, tree: Entries, problems: Problems) -> None:
    """Note every broken rule of a matrix whose shape is right."""
    advice = "put it under env of the host in hosts.yaml, as ${NAME}"
    refuse_literal_secrets(tree, problems, advice)
    _check_names(matrix, tree, problems)
    _check_flag_names(shape, tree, problems)
    templates = _templates(matrix, tree, problems)
    _check_factors(matrix, tree, templates, problems)
    _check_placeholders(matrix, tree, problems)
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
    known = matrix.algorithms
    if matrix.control not in known:
        hint = nearest(matrix.control, known, noun="algorithms")
        place = place_of(tree, "control")
        problems.add(f"the control {matrix.control!r} is no algorithm", place, hint)
    for name, place in _algorithm_levels(tree):
        if isinstance(name, str) and name not in known:
            hint = nearest(name, known, noun="algorithms") + "; a new one goes under algorithms:"
            problems.add(f"unknown algorithm {name!r}", place, hint)


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


def _templates(matrix: Matrix, tree: Entries, problems: Problems) -> list[Template]:
    """Compile all templates that can concern a factor; note those that do not compile."""
    found: list[Template] = []
    holders: list[_Holder] = [("server", ("server",), matrix.server.flags, matrix.server.env)]
    holders += [
        (f"algorithm {name}", ("algorithms", name), a.flags, a.env)
        for name, a in matrix.algorithms.items()
    ]
    for who, path, flags, env in holders:
        for section, texts in (("flags", flags), ("env", env)):
            for name, text in texts.items():
                try:
                    found.append(compile_template(text))
                except ExpressionError as error:
                    place = _at(tree, error.offset, *path, section, name)
                    problems.add(f"{who}, {name}: {error.what}", place, error.hint)
    return found


def _check_factors(
    matrix: Matrix, tree: Entries, templates: list[Template], problems: Problems
) -> None:
    """Refuse factors that nothing would act on."""
    known = {"algorithm"} | LOAD_FACTORS | REQUEST_FACTORS | set(matrix.common)
    for template in templates:
        known |= template.names
    for algorithm in matrix.algorithms.values():
        known |= set(algorithm.factors)
    for name in matrix.factors:
        if name not in known and not _ENVIRONMENT_FACTOR.fullmatch(name):
            flag = name.replace("_", "-").lower()
            hint = nearest(name, known, noun="factors")
            hint += f'; for a server flag write server: {{flags: {{{flag}: "{{{name}}}"}}}}'
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


def _check_placeholders(matrix: Matrix, tree: Entries, problems: Problems) -> None:
    """Refuse templates in use that need a factor which the matrix does not have."""
    texts: dict[str, Level] = {**matrix.server.flags, **matrix.server.env}
    holders: list[tuple[str, tuple[str, ...], dict[str, Level]]] = [("server", ("server",), texts)]
    for name in _used_algorithms(matrix):
        algorithm = matrix.algorithms[name]
        texts = {**algorithm.flags, **algorithm.env}
        holders.append((f"algorithm {name!r}", ("algorithms", name), texts))
    for who, path, texts in holders:
        missing: dict[str, list[str]] = {}
        for flag, text in texts.items():
            try:
                required = compile_template(text).required
            except ExpressionError:
                continue  # noted by _templates
            for factor in required - set(matrix.factors):
                missing.setdefault(factor, []).append(flag)
        for factor, flags in sorted(missing.items()):
            place = key_place(tree, *path) if path[0] in tree.entries else place_of(tree, "factors")
            problems.add(
                f"{who} needs the factor {factor!r} (for {', '.join(flags)})",
                place,
                f"add {factor}: [...] to factors, or change the flag under {'.'.join(path)}.flags",
            )


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
