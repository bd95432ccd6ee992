"""JSON lines with a manifest first and a checksum last: a file that is whole, or is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import InputError
from specbench.model.json_text import NOT_JSON

SCHEMA = 1


def write_checksummed(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    """Write rows beside the name first and rename then; return the SHA-256 of all of them.

    Raises:
        InputError: the file cannot be written there.

    """
    body = b"\n".join(msgspec.json.encode(row) for row in rows) + b"\n"
    digest = hashlib.sha256(body).hexdigest()
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(body + msgspec.json.encode({"kind": "end", "sha256": digest}) + b"\n")
        partial.replace(path)
    except OSError as error:
        raise InputError(f"the recording cannot be written: {error}", where=str(path)) from error
    return digest


def read_checksummed(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return all rows, the manifest first, and their SHA-256.

    Raises:
        InputError: it does not exist, is truncated, was changed, or is of another schema.

    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"the reference cannot be read: {error}", where=str(path)) from error
    body, _, end = raw.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    try:
        rows = [msgspec.json.decode(line) for line in body.splitlines() if line]
        last = msgspec.json.decode(end)
    except NOT_JSON as error:
        raise bad_file(path, "is not a reference recording, or was cut inside a line") from error
    if not isinstance(last, dict) or last.get("kind") != "end":
        raise bad_file(path, "is truncated: its last line is missing")
    if last.get("sha256") != hashlib.sha256(body).hexdigest():
        raise bad_file(path, "was changed after it was written: its checksum does not match")
    if not rows or rows[0].get("kind") != "manifest" or rows[0].get("schema") != SCHEMA:
        raise bad_file(path, f"has another schema than {SCHEMA}")
    return rows, str(last["sha256"])


def bad_file(path: Path, what: str) -> InputError:
    """Return the error of a file that cannot be used."""
    return InputError(
        f"the reference {path.name} {what}",
        where=str(path),
        hint="record it again: specbench record --url URL -o FILE",
    )
