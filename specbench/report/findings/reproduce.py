"""How to see it again: matrix, versions, hashes, commands."""

import platform
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from specbench.model.block_facts import BlockFacts
from specbench.report.findings.violations import server_of
from specbench.report.inputs import Evidence
from specbench.report.statements import Section, Statement, Table
from specbench.version import __version__

SECRET = re.compile(r"key|token(?!s|iz)|secret|password|credential", re.IGNORECASE)


def section(evidence: Evidence) -> Section:
    """Give everything that a second run needs, and the commands."""
    manifest = evidence.manifest
    matrix = manifest.matrix_path or "matrix.yaml"
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
            *_relaunched(evidence),
            Statement(
                kind="fact",
                text="The matrix as it was run:",
                details=tuple((manifest.matrix or "not recorded").splitlines()),
            ),
        ),
        short=f"`{commands[0]}` measures it again; `{commands[1]}` writes this report.",
        tables=(_versions(evidence), *_servers(evidence)),
        plots=("load_phases", "gpu"),
    )


def _relaunched(evidence: Evidence) -> Iterator[Statement]:
    """Give, for each arm that was verified, its launch command and the command that verifies."""
    seen: set[str] = set()
    for document in evidence.verdicts:
        block, server = document.block_id, server_of(document)
        words = launch_words(evidence.launches.get(block) or {})
        command = shlex.join(words)
        if not words or command in seen:
            continue
        seen.add(command)
        facts = evidence.blocks.get(block)
        url = (facts and facts.url) or "URL"
        yield Statement(
            kind="fact",
            text=f"{server}: the verdict and its witnesses show again on a running server only."
            f" Launch it on host `{document.host or 'of the block'}`, wait until it"
            " answers, then verify:",
            rows=(block,),
            details=(command, f"specbench verify --url {shlex.quote(url)} --budget quick"),
        )


def launch_words(launch: Mapping[str, Any]) -> list[str]:
    """Give the environment and arguments of a launch as words of a shell, secrets left out."""
    words = [str(word) for word in launch.get("argv") or ()]
    hidden = [
        "***" if number and _asks_secret(words[number - 1]) else _without_secret(word)
        for number, word in enumerate(words)
    ]
    env = launch.get("env") or {}
    told = [f"{name}={'***' if SECRET.search(name) else value}" for name, value in env.items()]
    return ["env", *told, *hidden] if told and hidden else hidden


def _asks_secret(word: str) -> bool:
    return word.startswith("--") and "=" not in word and bool(SECRET.search(word))


def _without_secret(word: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}=***" if equals and SECRET.search(name) else word


def _versions(evidence: Evidence) -> Table:
    manifest = evidence.manifest
    rows: list[tuple[Any, ...]] = [
        ("recording", evidence.name),
        ("begun", manifest.created_at or None),
        ("specbench of the run", manifest.specbench or None),
        ("specbench of this report", f"{__version__} (Python {platform.python_version()})"),
    ]
    rows += [(f"dataset {name}", digest) for name, digest in manifest.dataset.items()]
    rows += [(f"seed {name}", seed) for name, seed in manifest.seeds.items()]
    rows += [(f"client {name}", fact) for name, fact in manifest.client.items()]
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
                    facts.host or None,
                    facts.version,
                    _rounded(facts.load_s),
                    facts.code_hash,
                    _command(facts),
                )
                for block_id, facts in evidence.blocks.items()
            ),
            caption="Servers that were launched",
            keys=tuple(f"block-{block_id}" for block_id in evidence.blocks),
        ),
    )


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _command(facts: BlockFacts) -> str | None:
    """Join a launch's flags for reading; the values of flags that hold secrets are left out."""
    flags = facts.spec.flags if facts.spec else ()
    words = [
        f"--{name}" if value is True else f"--{name} {_shown(name, value)}"
        for name, value in flags
        if value not in (None, False)
    ]
    return " ".join(words) or None


def _shown(name: str, value: Any) -> str:
    return "***" if SECRET.search(name) else shlex.quote(str(value))
