"""Entries of `files:`: FROM:TO, a file here and the place on a host where it goes; or a package."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from specbench.config.packages import is_package, read_package
from specbench.errors import InputError

SITE = "{site}"


def split_entry(entry: str) -> tuple[str, str]:
    """Split FROM:TO. TO is absolute, below the home (`~/`), or below the packages (`{site}/`)."""
    source, colon, target = entry.rpartition(":")
    if not colon or not source or not target.startswith(("/", "~/", SITE + "/")):
        raise InputError(
            f"files entry {entry!r} is not FROM:TO",
            hint="like patches/worker.py:{site}/package/worker.py; TO starts with "
            "/, ~/ or {site}/ (the packages of the host's python). A package is a path that ends "
            "with .whl, or git+URL@REVISION",
        )
    return source, target


def read_entry(entry: str) -> bytes:
    """Read the file of an entry. Raises InputError where it cannot be read here."""
    source, _ = split_entry(entry)
    try:
        return Path(source).expanduser().read_bytes()
    except OSError as error:
        raise InputError(
            f"files entry {entry!r}: {source}: {error.strerror}",
            hint="the path is relative to the folder that specbench is started in",
        ) from error


def pin_files(entries: Iterable[str], *, where: str | None = None) -> tuple[str, ...]:
    """Write a commit for every branch and tag, so that all launches of a run serve the same code.

    Raises InputError, at `where`, for a revision that cannot be resolved.
    """
    with _placed(where):
        return tuple(read_package(entry).entry if is_package(entry) else entry for entry in entries)


def hash_files(entries: Iterable[str], *, where: str | None = None) -> dict[str, str]:
    """Map each target to the sha256 of what is put there: a patch is its content, not its name.

    A package stands under its name, with the sha256 of its wheel or its commit. Raises InputError,
    at `where`, for an entry that cannot be understood or read.
    """
    with _placed(where):
        return dict(_target_and_hash(entry) for entry in entries)


def _target_and_hash(entry: str) -> tuple[str, str]:
    if is_package(entry):
        package = read_package(entry)
        return package.name, package.identity
    return split_entry(entry)[1], hashlib.sha256(read_entry(entry)).hexdigest()


@contextlib.contextmanager
def _placed(where: str | None) -> Iterator[None]:
    """Say of an error where the entry was written."""
    try:
        yield
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from error
