"""The part that runs with the server's own Python to say which code it will serve.

This file is sent to the host's Python over standard input and leaves nothing behind there; it uses
the standard library only (Python 3.8 or later). Nothing of the package is imported. What cannot be
found out is left out of the answer.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
from typing import Any, Dict  # noqa: UP035 - evaluated at run time, by Python 3.8 too

Json = Dict[str, Any]  # noqa: UP006 - as above
GIT_S = 20.0


def main(request: Json) -> None:
    """Describe `package` on standard output."""
    print(json.dumps(describe(str(request["package"]))), flush=True)  # noqa: T201 - the answer


def describe(package: str) -> Json:
    """Tell version, origin and revision of an importable package.

    `revision` is the commit that it was installed from, or that is checked out where its files lie;
    `dirty` says whether files differ from it, and `diff_sha256` tells two such differences apart.
    """
    found = importlib.util.find_spec(package)
    if found is None:
        return {}
    facts: Json = {"name": package, **_installed(package)}
    places = list(found.submodule_search_locations or [])
    if places and not facts.get("revision"):
        facts.update(_checked_out(pathlib.Path(places[0])))
    return facts


def _installed(package: str) -> Json:
    """Read the distribution that brought the package, and where that came from (PEP 610)."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return {}
    facts: Json = {"version": distribution.version}
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return facts
    if origin.get("dir_info", {}).get("editable"):
        facts["editable"] = True
    commit = origin.get("vcs_info", {}).get("commit_id")
    archive = origin.get("archive_info", {})
    digest = archive.get("hashes", {}).get("sha256") or archive.get("hash")
    known = {"revision": commit, "archive_hash": digest}
    facts.update({name: value for name, value in known.items() if value})
    return facts


def _checked_out(folder: pathlib.Path) -> Json:
    """Ask git, where the package's files are files of a repository: a venv in one is not."""
    revision = _git(folder, "rev-parse", "HEAD")
    if not revision or _git(folder, "ls-files", "--error-unmatch", "--", ".") is None:
        return {}
    facts: Json = {"revision": revision.decode().strip()}
    status = _git(folder, "status", "--porcelain", "--", ".")
    if status is not None:
        facts["dirty"] = bool(status)
    if status:
        diff = _git(folder, "diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD", "--", ".")
        facts["diff_sha256"] = hashlib.sha256(status + (diff or b"")).hexdigest()
    return facts


def _git(folder: pathlib.Path, *words: str) -> bytes | None:
    # Without the lock, or `status` would write the index: the host stays as it is.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
