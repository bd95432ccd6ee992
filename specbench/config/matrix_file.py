"""matrix.yaml to a Matrix: the shape first, then the rules that tie its parts together."""

from pathlib import Path

from specbench.backends.products import BACKENDS, backend_for
from specbench.config.algorithms import builtin, common_factors, extended
from specbench.config.document import Entries, Items, Problems, Scalar, parse_document, read_text
from specbench.config.levels import decode_factors, decode_include
from specbench.config.records import TOP, decode, key_place, place_of, refuse_control_characters
from specbench.config.rules import check_rules
from specbench.config.shapes import Depth, MatrixFile
from specbench.errors import InputError, nearest
from specbench.model.matrix import Algorithm, Matrix


def read_matrix(path: str | Path) -> Matrix:
    """Read a matrix file.

    Raises:
        InputError: one error, at file:line:column with the rule and the nearest valid name.
        InputErrors: several of them.
    """
    return parse_matrix(read_text(path), str(path))


def parse_matrix(text: str, path: str = "matrix.yaml") -> Matrix:
    """Decode the text of a matrix file; `path` is what errors call it, and the base of datasets.

    Raises:
        InputError: as `read_matrix`.
    """
    problems = Problems()
    tree = parse_document(text, path, problems)
    if tree is None:
        problems.raise_any()
        raise InputError("the file is empty", where=f"{path}:1:1")
    refuse_control_characters(tree, problems)
    factors = decode_factors(tree, problems)
    include, keep = decode_include(tree, problems)
    elsewhere: dict[str, object] = {"factors": {}, "include": []}
    shape = decode(tree, MatrixFile, problems, TOP, elsewhere=elsewhere)
    engine = _engine(tree, shape, problems)
    algorithms = _algorithms(tree, shape, problems, engine)
    if shape is not None:
        matrix = _matrix(shape, tree, algorithms, engine)
        fields = {name: getattr(matrix, name) for name in matrix.__struct_fields__}
        fields |= {
            "factors": factors,
            "include": include,
            "keep": keep,
            "source": text,
            "path": path,
        }
        matrix = Matrix(**fields)
        check_rules(matrix, shape, tree, problems)
        problems.raise_any()
        return matrix
    problems.raise_any()
    raise InputError("the matrix cannot be read", where=path)


def _algorithms(
    tree: Entries, shape: MatrixFile | None, problems: Problems, engine: str
) -> dict[str, Algorithm]:
    table = builtin(engine).algorithms
    try:
        changes = shape.algorithms if shape else {}
        return extended(table, changes, backend_for(engine).name_flag)
    except InputError as error:
        name = error.where or ""
        problems.add(error.what, key_place(tree, "algorithms", name), error.hint)
        return table


def _engine(tree: Entries, shape: MatrixFile | None, problems: Problems) -> str:
    """Return the engine of the matrix; where it is none, note that and take the default one."""
    engine = shape.server.engine if shape else ""
    if engine and engine not in BACKENDS:
        hint = nearest(engine, BACKENDS, noun="engines")
        problems.add(f"unknown engine {engine!r:.60}", place_of(tree, "server", "engine"), hint)
        return ""
    return engine


def _matrix(
    shape: MatrixFile, tree: Entries, algorithms: dict[str, Algorithm], engine: str
) -> Matrix:
    return Matrix(
        name=shape.name,
        model=shape.model,
        hosts=(shape.hosts,) if isinstance(shape.hosts, str) else tuple(shape.hosts),
        factors={},
        exclude=tuple(shape.exclude),
        when=shape.when,
        algorithms=algorithms,
        common=common_factors(shape.common, engine),
        server=shape.server,
        workload=shape.workload,
        control=shape.control,
        replicates=shape.replicates,
        verify=_depth(shape.verify),
        spread=shape.spread,
        files=tuple(shape.files),
        seed=shape.seed,
        places=_places(tree),
    )


def _depth(verify: bool | Depth) -> Depth | None:
    if isinstance(verify, bool):
        return "default" if verify else None
    return verify


def _places(tree: Entries) -> dict[str, str]:
    """Where the entries stand that later steps may complain about."""
    places = {name: str(place) for name, (place, _) in tree.entries.items()}
    for section in ("factors", "algorithms", "when", "workload"):
        node = tree.entries[section][1] if section in tree.entries else None
        if isinstance(node, Entries):
            places |= {f"{section}.{name}": str(place) for name, (place, _) in node.entries.items()}
    for section in ("exclude", "hosts"):
        node = tree.entries[section][1] if section in tree.entries else None
        for index, item in enumerate(node.items if isinstance(node, Items) else ()):
            name = item.text if section == "hosts" and isinstance(item, Scalar) else index
            places[f"{section}.{name}"] = str(item.place)
    return places
