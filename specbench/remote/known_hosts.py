"""The lines of known_hosts files that are about one machine; the others are nobody's business.

Read here and not by paramiko, which gives a whole file up for one line that it cannot read.
"""

import binascii
import struct
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

UNREADABLE = (
    paramiko.SSHException, InvalidHostKey, ValueError, binascii.Error, IndexError, struct.error,
)  # fmt: skip


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say of one machine.

    `keys` are accepted, `revoked` never are; `unusable` says which of its lines cannot be used.
    """

    keys: tuple[paramiko.PKey, ...] = ()
    revoked: tuple[paramiko.PKey, ...] = ()
    unusable: tuple[str, ...] = ()


def known_keys(name: str, files: Iterable[str]) -> Known:
    """Find the keys of a machine under the name (`host` or `[host]:port`) that the files use."""
    keys: list[paramiko.PKey] = []
    revoked: list[paramiko.PKey] = []
    unusable: list[str] = []
    for place, marker, words in _lines_about(name, files):
        if marker == "@cert-authority":
            unusable.append(f"{place} trusts a certificate authority, which is not supported here")
            continue
        key = _key(words)
        if key is None:
            unusable.append(f"{place} holds a key that cannot be read here")
            continue
        (revoked if marker == "@revoked" else keys).append(key)
    return Known(keys=tuple(keys), revoked=tuple(revoked), unusable=tuple(unusable))


def _lines_about(name: str, files: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield place, marker and words (names, type, key) of every line that names the machine."""
    for file in files:
        try:
            content = Path(file).read_bytes()
        except OSError:
            continue  # as ssh does: what it cannot open says nothing
        for number, line in enumerate(content.splitlines(), 1):
            words = line.decode(errors="replace").split()
            if not words or words[0].startswith("#"):
                continue
            marker = words.pop(0) if words[0].startswith("@") else ""
            if len(words) >= 2 and _names(words[0], name):
                yield f"{file}:{number}", marker, words


def _names(patterns: str, name: str) -> bool:
    """Whether a line is about a machine, by OpenSSH's rules: hashed, `*`, `?`, `!` before."""
    found = False
    for pattern in patterns.lower().split(",") if not patterns.startswith("|") else [patterns]:
        if pattern.startswith("|1|"):
            found = found or _is_hash_of(pattern, name)
        elif fnmatchcase(name.lower(), pattern.removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _is_hash_of(pattern: str, name: str) -> bool:
    try:
        return HostKeys.hash_host(name, pattern) == pattern
    except UNREADABLE:
        return False


def _key(words: list[str]) -> paramiko.PKey | None:
    try:
        entry = HostKeyEntry.from_line(" ".join(words[:3]))
    except UNREADABLE:
        return None
    return None if entry is None else entry.key
