"""Entries of `files:`: FROM:TO, a file here and the place on a host where it goes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from specbench.errors import InputError

SITE = "{site}"


def split_entry(entry: str) -> tuple[str, str]:
    """Split FROM:TO. TO is absolute, below the home (`~/`), or below the packages (`{site}/`)."""
    source, colon, target = entry.rpartition(":")
    if not colon or not source or not target.startswith(("/", "~/", SITE + "/")):
        raise InputError(
            f"files entry {entry!r} is not FROM:TO",
            hint="like patches/worker.py:{site}/sglang/srt/speculative/worker.py; TO starts with "
            "/, ~/ or {site}/ (the packages of the host's python)",
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


def hash_files(entries: Iterable[str], *, where: str | None = None) -> dict[str, str]:
    """Map each target to the sha256 of what is put there: a patch is its content, not its name.

    Raises InputError, at `where`, for an entry that is not FROM:TO or cannot be read.
    """
    try:
        return {
            split_entry(entry)[1]: hashlib.sha256(read_entry(entry)).hexdigest()
            for entry in entries
        }
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from error
