"""Levels to the server that they need: flags and environment, by server version."""

from collections.abc import Callable

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from specbench.backends.products import DEFAULT, backend_for
from specbench.errors import InputError
from specbench.expressions.template import Template, compile_template
from specbench.model.matrix import Algorithm, Level, Matrix, is_variable
from specbench.model.plan import LaunchSpec
from specbench.planning.design import DRIVEN, Design, Levels
from specbench.planning.identity import digest

InvalidReason = Callable[[LaunchSpec, str | None], str | None]
Templates = dict[str, Template]


class Renderer:
    """Renders launches of one matrix for one server version (None: the newest names)."""

    def __init__(self, design: Design, version: str | None) -> None:
        matrix = design.matrix
        self.design = design
        self.matrix = matrix
        self.version = version
        self.backend = backend_for(matrix.server.engine)
        self.server_flags = _compiled(matrix.server.flags)
        self.server_env = _compiled(matrix.server.env)
        self.common = {
            name: _compiled(
                _for_version(matrix.common[name].flags, matrix.common[name].versions, version)
            )
            for name in design.launch_names
            if name in matrix.common and name not in design.algorithm_factors
        }
        self.algorithms = {
            name: (_compiled(_for_version(a.flags, a.versions, version)), _compiled(a.env))
            for name, a in matrix.algorithms.items()
        }
        self._refuse_conflicts()

    def _refuse_conflicts(self) -> None:
        """Refuse a flag that both the server's options and a factor would set."""
        fixed = dict.fromkeys(self.matrix.server.flags, "server.flags")
        for factor, templates in self.common.items():
            for flag in templates:
                if flag in fixed:
                    raise InputError(
                        f"the flag {flag} is set by the factor {factor!r} and by {fixed[flag]}",
                        where=self.matrix.places.get(f"factors.{factor}"),
                        hint="keep one of them",
                    )
                fixed[flag] = f"the factor {factor!r}"

    @property
    def pinned(self) -> int | None:
        """The bound on running requests that every arm gets, unless the matrix has its own.

        A server that chooses its own for speculation makes any comparison above it unfair.
        """
        own = (self.server_flags, *self.common.values())
        pin = self.backend.pin
        if pin is None or any(pin.flag in templates for templates in own):
            return None
        levels = self.matrix.factors.get("concurrency", ())
        asked = [level for level in levels if isinstance(level, int)]
        return max([pin.at_least, *asked])

    def spec(self, levels: Levels) -> LaunchSpec:
        """Render the launch of a cell."""
        name = str(levels["algorithm"])
        algorithm = self.matrix.algorithms[name]
        own_flags, own_env = self.algorithms[name]
        flags: dict[str, Level] = {}
        if self.backend.pin is not None and self.pinned is not None:
            flags[self.backend.pin.flag] = self.pinned
        for templates in (self.server_flags, *self.common.values(), own_flags):
            for flag, template in templates.items():
                flags[flag] = template.render(levels)
        env: dict[str, Level] = {}
        for factor in self.design.launch_names:
            if is_variable(factor) and factor not in self.design.algorithm_factors:
                env[factor] = levels[factor]
        for templates in (self.server_env, own_env):
            for variable, template in templates.items():
                env[variable] = template.render(levels)
        launch = {name: level for name, level in levels.items() if name not in DRIVEN}
        return _sealed(self.matrix, algorithm, launch, flags, env)

    def version_reason(self, algorithm: str) -> str | None:
        """Say why the server's version does not have the algorithm, or None."""
        entry = self.matrix.algorithms[algorithm]
        version = _version(self.version)
        if version is None:
            return None
        since, until = _version(entry.since), _version(entry.until)
        if since and version < since:
            return f"{algorithm} needs server version {entry.since}; this is {self.version}"
        if until and version > until:
            return f"{algorithm} ends with server version {entry.until}; this is {self.version}"
        return None


def files_of(matrix: Matrix) -> dict[str, str] | tuple[str, ...]:
    """Return what defines the files of a matrix: their content where it is known, else the text."""
    return matrix.file_hashes or matrix.files


def engine_of(matrix: Matrix) -> str:
    """Return the engine, "" for the default one: written out or not, it is the same server."""
    return "" if matrix.server.engine == DEFAULT else matrix.server.engine


def _sealed(
    matrix: Matrix,
    algorithm: Algorithm,
    launch: Levels,
    flags: dict[str, Level],
    env: dict[str, Level],
) -> LaunchSpec:
    # By identity: 0 is a value that a flag may have, and equal to False.
    shown = tuple(
        (f, value) for f, value in flags.items() if value is not None and value is not False
    )
    texts = tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in env.items()
        if value is not None
    )
    command = matrix.server.command
    # The name is part of it: two arms never share a process, whose caches would join them.
    content = (
        launch["algorithm"], matrix.model, command, dict(shown), dict(texts), files_of(matrix),
    )  # fmt: skip
    engine = engine_of(matrix)
    return LaunchSpec(
        fingerprint=digest(*content, *([engine] if engine else [])),
        algorithm=str(launch["algorithm"]),
        speculative=algorithm.speculative,
        model_path=matrix.model.path,
        served_name=matrix.model.served_name,
        command=command,
        flags=shown,
        env=texts,
        files=matrix.files,
        levels=launch,
        forces=algorithm.forces,
        engine=engine,
    )


def _compiled(flags: dict[str, Level] | dict[str, str]) -> Templates:
    return {flag: compile_template(text) for flag, text in flags.items()}


def _for_version(
    flags: dict[str, Level], versions: dict[str, dict[str, Level]], version: str | None
) -> dict[str, Level]:
    """Lay the flags of every range that holds the version over the ordinary ones."""
    found = dict(flags)
    installed = _version(version)
    if installed is None:
        return found
    for ranges, changes in versions.items():
        if _specifiers(ranges).contains(installed, prereleases=True):
            found |= changes
    return found


def _specifiers(ranges: str) -> SpecifierSet:
    try:
        return SpecifierSet(ranges)
    except InvalidSpecifier as error:
        raise InputError(f"{ranges!r} is no range of versions", hint="write >=0.5.18") from error


def _version(text: str | None) -> Version | None:
    """Return a version, or None for one that is unknown or says nothing (a fork's own name).

    A development build counts as the release that it leads to.
    """
    try:
        version = Version(text) if text else None
    except InvalidVersion:
        return None
    return Version(version.base_version) if version and version.is_devrelease else version
