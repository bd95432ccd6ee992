"""How to see it again: matrix, versions, hashes, commands."""

import platform
import re
import shlex
from typing import Any

from specbench.report.evidence import Evidence
from specbench.report.statements import Section, Statement, Table
from specbench.version import __version__

SECRET = re.compile(r"key|token(?!s|iz)|secret|password|credential", re.IGNORECASE)


def section(evidence: Evidence) -> Section:
    """Give everything that a second run needs, and the commands."""
    manifest = evidence.manifest
    matrix = str(manifest.get("matrix_path") or "matrix.yaml")
    name = shlex.quote(evidence.name)
    commands = (
        f"specbench run {shlex.quote(matrix)} --fresh",
        f"specbench report results/{name}",
    )
    return Section(
        anchor="reproduce",
        title="How to see it again",
        statements=(
            Statement(kind="fact", text="The commands:", details=commands),
            Statement(
                kind="fact",
                text="The matrix as it was run:",
                details=tuple(str(manifest.get("matrix") or "not recorded").splitlines()),
            ),
        ),
        tables=(_versions(evidence), *_servers(evidence)),
        plots=("load_phases", "gpu"),
    )


def _versions(evidence: Evidence) -> Table:
    manifest = evidence.manifest
    rows: list[tuple[Any, ...]] = [
        ("recording", evidence.name),
        ("begun", manifest.get("created_at")),
        ("specbench of the run", manifest.get("specbench")),
        ("specbench of this report", f"{__version__} (Python {platform.python_version()})"),
    ]
    rows += [
        (f"dataset {name}", digest) for name, digest in (manifest.get("dataset") or {}).items()
    ]
    rows += [(f"seed {name}", seed) for name, seed in (manifest.get("seeds") or {}).items()]
    rows += [(f"client {name}", fact) for name, fact in (manifest.get("client") or {}).items()]
    return Table(
        heads=("what", "value"),
        rows=tuple((what, None if value is None else str(value)) for what, value in rows),
        caption="Versions, hashes and seeds",
    )


def _servers(evidence: Evidence) -> tuple[Table, ...]:
    if not evidence.blocks:
        return ()
    return (
        Table(
            heads=("block", "host", "server version", "load (s)", "code hash", "launch command"),
            rows=tuple(
                (
                    block_id,
                    facts.get("host"),
                    facts.get("version"),
                    _rounded(facts.get("load_s")),
                    facts.get("code_hash"),
                    _command(facts),
                )
                for block_id, facts in evidence.blocks.items()
            ),
            caption="Servers that were launched",
            keys=tuple(f"block-{block_id}" for block_id in evidence.blocks),
        ),
    )


def _rounded(value: Any) -> str | None:
    return f"{value:.1f}" if isinstance(value, int | float) else None


def _command(facts: dict[str, Any]) -> str | None:
    """Join a launch's flags for reading; the values of flags that hold secrets are left out."""
    flags = (facts.get("spec") or {}).get("flags") or ()
    words = [
        f"--{name}" if value is True else f"--{name} {_shown(str(name), value)}"
        for name, value in flags
        if value not in (None, False)
    ]
    return " ".join(words) or None


def _shown(name: str, value: Any) -> str:
    return "***" if SECRET.search(name) else shlex.quote(str(value))
