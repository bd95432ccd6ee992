"""The write side: one process at a time, a journal, and trials sealed by rename."""

import datetime as dt
import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.secrets import NO_SECRETS, Secrets
from specbench.model.verdict import RecordedVerdict
from specbench.recording.checking import (
    check_schema,
    read_entries,
    sealed_trials,
    unlisted_trials,
)
from specbench.recording.damage import Listed, file_sha256
from specbench.recording.durable import (
    Journal,
    sync_folder,
    unwritable,
    write_atomically,
)
from specbench.recording.entries import Entry, FileWritten, TrialSealed
from specbench.recording.lock import take_lock, utc_now
from specbench.recording.paths import RecordingPaths, recording_name
from specbench.recording.progress import replace_progress
from specbench.recording.reader import read_manifest
from specbench.recording.sealed import Manifest, SealedTrial

_encode = msgspec.json.encode

BLOCK_FILES = (
    "launch.json", "server_info.json", "model_info.json", "files.json", "host.csv", "gpu.csv",
)  # fmt: skip
"""What a launch leaves beside its log, which may grow on, and what the server said of itself."""


class Writer:
    """The only writer of a recording. Safe to use from one thread a host.

    Everything that `seal` returned from survives a kill at any instant; a trial that was being
    measured leaves a draft, which the next writer removes.
    """

    def __init__(
        self, paths: RecordingPaths, lock: IO[str], *, resumed: bool, secrets: Secrets
    ) -> None:
        self.paths = paths
        self._secrets = secrets
        self.resumed = resumed
        self._lock = lock
        self._mutex = threading.Lock()
        try:
            self._journal = Journal(paths.journal)
        except RecordingError:
            lock.close()
            raise
        self._adopt_unlisted_trials()
        self._remove_drafts()

    @classmethod
    def create(
        cls,
        results: Path,
        manifest: Manifest,
        content_hash: str,
        *,
        secrets: Secrets = NO_SECRETS,
    ) -> Self:
        """Start a new recording under `results`, which only its owner can read.

        Raises RecordingError when the folder cannot be written.
        """
        now = dt.datetime.now(dt.UTC)
        paths = RecordingPaths(results / recording_name(manifest.name, content_hash, now))
        try:
            results.mkdir(parents=True, exist_ok=True)
            for folder in (
                paths.root, paths.blocks, paths.trials, paths.tables, paths.verdicts
            ):  # fmt: skip
                folder.mkdir(mode=0o700)
        except OSError as error:
            raise unwritable(paths.root, error) from error
        lock = take_lock(paths)
        writer = cls(paths, lock, resumed=False, secrets=secrets)
        writer._keep("manifest.json", manifest)
        return writer

    @classmethod
    def resume(cls, root: Path, *, secrets: Secrets = NO_SECRETS) -> Self:
        """Go on with the recording in `root`.

        Raises RecordingError when another run holds it or a newer specbench wrote it.
        """
        paths = RecordingPaths(root)
        check_schema(read_manifest(root), paths.manifest)
        return cls(paths, take_lock(paths), resumed=True, secrets=secrets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the recording for the next run."""
        self._journal.close()
        self._lock.close()

    def note(self, entry: Entry) -> None:
        """Append one entry to the journal, with the present moment."""
        with self._mutex:
            self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        entry.at = utc_now()
        self._journal.append(self._secrets.hide_in(msgspec.to_builtins(entry)))

    def _content(self, document: object) -> bytes:
        """Encode a document without secrets."""
        told = self._secrets.hide_in(msgspec.to_builtins(document))
        return msgspec.json.format(_encode(told), indent=1)

    def _keep(self, path: str, document: object) -> None:
        """Write a document of the recording as a whole, then enter its hash."""
        content = self._content(document)
        write_atomically(self.paths.root / path, content)
        self.note(_written(path, content))

    def heartbeat(self, state: dict[str, Any]) -> None:
        """Leave the present state for `specbench status`; not durable, and never an error."""
        aside = self.paths.progress.with_suffix(f".{threading.get_ident()}")
        known = {"at": utc_now(), "journal_bytes": self._journal.size}
        replace_progress(
            self.paths, aside, self._secrets.hide_in(known | msgspec.to_builtins(state))
        )

    def open_block(self, block_id: str) -> Path:
        """Make the folder of one launch; earlier launches of it are kept as `<id>.<n>`."""
        folder = self.paths.block(block_id)
        try:
            if folder.exists():
                folder.rename(_free_name(self.paths.blocks, block_id))
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise unwritable(folder, error) from error
        return folder

    def write_block_facts(self, block_id: str, facts: BlockFacts) -> None:
        """Keep what the server of a block said of itself."""
        self._keep(f"blocks/{block_id}/facts.json", facts)

    def note_block_files(self, block_id: str) -> None:
        """Enter the hashes of what a launch that has ended left, except its log."""
        for name in BLOCK_FILES:
            file = self.paths.block(block_id) / name
            if file.is_file():
                self.note(FileWritten(path=f"blocks/{block_id}/{name}", sha256=file_sha256(file)))

    def describe_host(self, name: str, facts: dict[str, Any]) -> None:
        """Keep in the manifest what a host said of itself; the blocks keep it for each launch."""
        told = msgspec.json.decode(_encode(facts))  # as it will be read back: no tuples
        with self._mutex:
            manifest = read_manifest(self.paths.root)
            known = manifest.get("host_facts") or {}
            if told and known.get(name) != told:
                manifest["host_facts"] = {**known, name: told}
                content = self._content(manifest)
                self._enter(_written("manifest.json", content))  # before: both are then known
                write_atomically(self.paths.manifest, content)

    def draft(self, trial_id: str) -> Path:
        """Begin a trial: an empty folder, whose `requests.jsonl` the driver fills."""
        folder = self.paths.draft(trial_id)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise unwritable(folder, error) from error
        return folder

    def seal(self, sealed: SealedTrial) -> None:
        """End a trial: make its draft durable, rename it, and enter it in the journal.

        A sealed trial of the same id (failed, or stale) is kept under `trials/superseded`.
        """
        trial_id = sealed.trial.trial_id
        draft, final = self.paths.draft(trial_id), self.paths.trial(trial_id)
        try:
            draft.mkdir(mode=0o700, exist_ok=True)
            requests = draft / "requests.jsonl"
            requests.touch(mode=0o600)
            requests.chmod(0o600)
            sealed.requests_sha256 = _hash_durably(requests)
            content = self._content(sealed)
            write_atomically(draft / "trial.json", content)
            with self._mutex:
                if final.exists():
                    self.paths.superseded.mkdir(mode=0o700, exist_ok=True)
                    final.rename(_free_name(self.paths.superseded, trial_id))
                draft.rename(final)
                sync_folder(self.paths.trials)
        except OSError as error:
            raise unwritable(draft, error) from error
        self._note_sealed(sealed, _sha256(content))

    def write_verdict(self, name: str, document: RecordedVerdict) -> None:
        """Keep one verdict document under `verdicts/`."""
        self._keep(f"verdicts/{name}.json", document)

    def write_table(self, name: str, write: Callable[[Path], None]) -> None:
        """Let `write` fill a table aside, then put it in place as a whole."""
        path = self.paths.tables / name
        aside = path.with_name(f".{name}.new")
        try:
            write(aside)
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise unwritable(path, error) from error

    def _note_sealed(self, sealed: SealedTrial, sha256: str) -> None:
        self.note(
            TrialSealed(
                trial_id=sealed.trial.trial_id,
                key=sealed.trial.key,
                cell_id=sealed.trial.cell.cell_id,
                block_id=sealed.trial.block_id,
                status=sealed.status,
                reason=sealed.reason,
                requests_sha256=sealed.requests_sha256,
                trial_sha256=sha256,
            )
        )

    def _adopt_unlisted_trials(self) -> None:
        """Enter trials that were sealed by a rename just before a kill; damaged ones stay out."""
        listed = Listed.of(read_entries(self.paths)[0])
        whole, _ = sealed_trials(self.paths, listed, hashed=True)
        for sealed in unlisted_trials(self.paths, listed, whole):
            file = self.paths.trial(sealed.trial.trial_id) / "trial.json"
            self._note_sealed(sealed, file_sha256(file))

    def _remove_drafts(self) -> None:
        for draft in self.paths.trials.glob(".*.draft"):
            shutil.rmtree(draft, ignore_errors=True)


def _free_name(folder: Path, stem: str) -> Path:
    number = 1
    while (folder / f"{stem}.{number}").exists():
        number += 1
    return folder / f"{stem}.{number}"


def _written(path: str, content: bytes) -> FileWritten:
    return FileWritten(path=path, sha256=_sha256(content))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_durably(path: Path) -> str:
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return digest
