"""What of a recording is not as it was written, held against the hashes that its journal keeps."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from specbench.recording.entries import BlockBegun, Entry, FileWritten, TrialSealed
from specbench.recording.paths import RecordingPaths

CHANGED = "was changed since it was written"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One file that is not as it was written: `what` is wrong, and what that costs (`left`).

    `file` is its path in the recording. `trial_id` and `key` name the trial that is left out for
    it, where one is.
    """

    file: str
    what: str
    left: str
    trial_id: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.what}: {self.left}"


class Unusable(Exception):
    """A file cannot be used; its text says what is wrong with it."""


@dataclass
class Listed:
    """What the journal says was written: hashes by path, and of each trial its last sealing.

    A manifest is known by any hash that it ever was to have: that is noted before it is replaced.
    """

    files: dict[str, str] = field(default_factory=dict)
    manifests: set[str] = field(default_factory=set)
    trials: dict[str, TrialSealed] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Listed":
        """Read what a journal lists; a launch that begins anew moves the earlier one's files."""
        listed = cls()
        for entry in entries:
            match entry:
                case FileWritten(path="manifest.json", sha256=sha256):
                    listed.manifests.add(sha256)
                case FileWritten(path=path, sha256=sha256):
                    listed.files[path] = sha256
                case TrialSealed(trial_id=trial_id):
                    listed.trials[trial_id] = entry
                case BlockBegun(block_id=block_id):
                    listed.forget_block(block_id)
                case _:
                    pass
        return listed

    def forget_block(self, block_id: str) -> None:
        """Forget the files of a launch: its folder gets another name when it is begun anew."""
        prefix = f"blocks/{block_id}/"
        self.files = {path: h for path, h in self.files.items() if not path.startswith(prefix)}

    def below(self, folder: str) -> list[str]:
        """List the paths below a folder of the recording."""
        return [path for path in self.files if path.startswith(f"{folder}/")]


def file_sha256(path: Path) -> str:
    """Hash a file, by parts.

    Raises OSError when it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bytes(path: Path, sha256: str = "") -> bytes:
    """Read a file that must have that hash, if one is known.

    Raises:
        Unusable: it is missing, is no file that can be read, or has another hash.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise Unusable("is missing") from None
    except OSError as error:
        raise Unusable(f"cannot be read ({error.strerror or error})") from error
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise Unusable("is empty" if not content else CHANGED)
    return content


def check_file(path: Path, sha256: str = "") -> None:
    """Hold a file of any size against the hash that it must have, if one is known.

    Raises:
        Unusable: it is missing, is no file that can be read, or has another hash.
    """
    try:
        found = file_sha256(path)
        empty = not path.stat().st_size
    except FileNotFoundError:
        raise Unusable("is missing") from None
    except OSError as error:
        raise Unusable(f"cannot be read ({error.strerror or error})") from error
    if sha256 and found != sha256:
        raise Unusable("is empty" if empty else CHANGED)


def changed_files(paths: RecordingPaths, listed: Listed, known: Iterable[str]) -> list[Damage]:
    """Hold every listed file against its hash; `known` paths are reported elsewhere."""
    left = "no figure rests on it; what it tells of the launch is in doubt"
    found = []
    for path in sorted(set(listed.files) - set(known)):
        try:
            check_file(paths.root / path, listed.files[path])
        except Unusable as problem:
            found.append(Damage(file=path, what=str(problem), left=left))
    return found
