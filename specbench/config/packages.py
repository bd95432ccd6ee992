"""Entries of `files:` that are packages: a wheel, or a git revision that a wheel is made of."""

import hashlib
import os
import re
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from specbench.errors import InputError

GIT_S = 60.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SCHEMES = ("https", "ssh", "file")


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package to put before the host's own: by its wheel, or by a commit of a repository.

    `entry` says it so that it means the same for ever: with the full commit. `identity` is the
    sha256 of the wheel, or the commit; equal code has an equal one on every machine.
    """

    entry: str
    name: str
    identity: str
    wheel: str | None = None

    @property
    def commit(self) -> str | None:
        """The commit, where it is one of a repository."""
        return self.identity if self.wheel is None else None


def is_package(entry: str) -> bool:
    """Whether an entry names a package: `git+...`, or a wheel without a place to copy it to."""
    if entry.startswith("git+"):
        return True
    return entry.endswith(".whl") and not re.search(r":(/|~/|\{site\}/)", entry)


def read_package(entry: str) -> Package:
    """Read a wheel's hash, or resolve a branch or tag to its commit.

    Raises InputError for a wheel that is none, a URL that cannot be used, and a revision that does
    not exist or cannot be asked for.
    """
    return _revision(entry) if entry.startswith("git+") else _wheel(entry)


def _wheel(entry: str) -> Package:
    path = Path(entry).expanduser()
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except OSError as error:
        raise InputError(
            f"files entry {entry!r}: {error.strerror}",
            hint="the path is relative to the folder that specbench is started in",
        ) from error
    except zipfile.BadZipFile as error:
        raise InputError(f"files entry {entry!r} is no wheel: {error}") from error
    if not any(name.endswith(".dist-info/METADATA") for name in names):
        raise InputError(f"files entry {entry!r} is no wheel: it has no metadata of a package")
    digest = hashlib.sha256(content).hexdigest()
    return Package(entry=entry, name=path.name, identity=digest, wheel=str(path))


def _revision(entry: str) -> Package:
    """Resolve `git+URL[@REVISION][#subdirectory=FOLDER]`, as pip knows it (its VCS support)."""
    parts = urlsplit(entry.removeprefix("git+"))
    if parts.scheme not in _SCHEMES or not parts.path.strip("/"):
        raise InputError(
            f"files entry {entry!r}: git+{parts.scheme or '?'} is not known",
            hint=f"write git+SCHEME://...@REVISION with a scheme of {', '.join(_SCHEMES)}",
        )
    if parts.password or (parts.username and parts.scheme == "https"):
        shown = entry.replace(parts.netloc, parts.netloc.rpartition("@")[2])
        raise InputError(
            f"files entry {shown!r} holds a password or token, which would be written down",
            hint="use git+ssh://, or a credential helper of git",
        )
    path, at, revision = parts.path.rpartition("@")
    path, revision = (path, revision) if at else (parts.path, "")
    url = parts._replace(path=path, query="", fragment="").geturl()
    fragment = "".join(
        f"#subdirectory={folder}" for folder in parse_qs(parts.fragment).get("subdirectory", [])[:1]
    )
    commit = _commit(entry, url, unquote(revision))
    return Package(
        entry=f"git+{url}@{commit}{fragment}", name=f"git+{url}{fragment}", identity=commit
    )


def _commit(entry: str, url: str, revision: str) -> str:
    if url.startswith("file:"):
        asked = f"{revision or 'HEAD'}^{{commit}}"
        words = ["-C", unquote(urlsplit(url).path), "rev-parse", "--verify", "--end-of-options"]
        return _git(entry, [*words, asked]).strip()
    if _COMMIT.fullmatch(revision):
        return revision
    wanted = [revision or "HEAD", f"{revision or 'HEAD'}^{{}}"]
    listed = _git(entry, ["ls-remote", "--", url, *wanted])
    refs = {name: commit for commit, _, name in (x.partition("\t") for x in listed.splitlines())}
    # An annotated tag is an object of its own; `^{}` is the commit that it names.
    tries = (revision or "HEAD", f"refs/heads/{revision}", f"refs/tags/{revision}^{{}}",
             f"refs/tags/{revision}")  # fmt: skip
    for name in tries:
        if name in refs:
            return refs[name]
    raise InputError(
        f"files entry {entry!r}: no branch or tag {revision!r} in {url}",
        hint="write a branch, a tag, or all 40 digits of a commit",
    )


def _git(entry: str, words: Sequence[str]) -> str:
    environment = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
    try:
        done = subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**environment, **os.environ},
            timeout=GIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(f"files entry {entry!r}: git is not installed here") from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"files entry {entry!r}: git did not answer within {GIT_S:g} s",
            hint="write all 40 digits of the commit: then nothing needs to be asked",
        ) from None
    if done.returncode:
        complaint = done.stderr.strip().splitlines()[:1] or [f"exit status {done.returncode}"]
        raise InputError(
            f"files entry {entry!r}: git cannot resolve it: {complaint[0]}",
            hint="the repository must be readable from here, and the revision be in it",
        )
    return done.stdout
