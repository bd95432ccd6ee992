"""The lines of `journal.jsonl`: one struct a kind, written and read back as such."""

from typing import Any

import msgspec

from specbench.errors import RecordingError
from specbench.model.matrix import Cell


class Entry(msgspec.Struct, kw_only=True, tag_field="kind"):
    """A line of the journal; `at` is the moment of writing, UTC, ISO 8601."""

    at: str = ""


class RunBegun(Entry, tag="run_started"):
    """A recording begins, by that version of specbench."""

    specbench: str = ""


class RunResumed(Entry, tag="run_resumed"):
    """A later run goes on with the recording; `matrix` is the text of its file."""

    specbench: str = ""
    matrix: str = ""


class Planned(Entry, tag="plan"):
    """What a run set out to do: so many trials, and the cells that no server can run."""

    trials: int = 0
    invalid: tuple[Cell, ...] = ()


class BlockBegun(Entry, tag="block_started"):
    """A server is being launched."""

    block_id: str = ""


class BlockUp(Entry, tag="block_ready"):
    """A server is ready, `load_s` seconds after its launch began."""

    block_id: str = ""
    load_s: float | None = None


class BlockLost(Entry, tag="block_failed"):
    """A server that could not be measured: the diagnosis, and lines of its log, verbatim."""

    block_id: str = ""
    pattern: str = ""
    cause: str = ""
    hint: str = ""
    evidence: tuple[str, ...] = ()


class BlockEnded(Entry, tag="block_stopped"):
    """A server was stopped in `seconds`; past `bound_s` it is killed."""

    block_id: str = ""
    seconds: float | None = None
    bound_s: float | None = None


class TrialSealed(Entry, tag="trial_sealed"):
    """A trial is on disk, whole. `key` is its place in the design; hashes are of its two files."""

    trial_id: str = ""
    key: str = ""
    cell_id: str = ""
    block_id: str = ""
    status: str = ""
    reason: str = ""
    requests_sha256: str = ""
    trial_sha256: str = ""


class FileWritten(Entry, tag="file_written"):
    """A file of the recording, by its path in it, has that content (the manifest: will have)."""

    path: str = ""
    sha256: str = ""


class RunEnded(Entry, tag="run_ended"):
    """A run came to its end."""

    measured: int = 0
    failed: int = 0


class Foreign(Entry, tag="foreign"):
    """A line of a kind that this specbench does not know; `content` is the whole of it."""

    content: dict[str, Any] = {}


Known = (
    RunBegun | RunResumed | Planned | BlockBegun | BlockUp | BlockLost | BlockEnded | TrialSealed
    | FileWritten | RunEnded
)  # fmt: skip
KINDS = frozenset(one.__struct_config__.tag for one in Known.__args__)


def entry_of(line: dict[str, Any], where: str) -> Entry:
    """Read one line of a journal.

    Raises:
        RecordingError: a line of a known kind does not have its fields.
    """
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return Foreign(at=str(line.get("at") or ""), content=line)
    try:
        entry: Entry = msgspec.convert(line, Known)
    except msgspec.ValidationError as error:
        raise RecordingError(f"a line of the journal is damaged: {error}", where=where) from error
    return entry
