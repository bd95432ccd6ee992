"""The write side: one process at a time, a journal, and trials sealed by rename."""

import datetime as dt
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from specbench.errors import RecordingError
from specbench.model.secrets import NO_SECRETS, Secrets
from specbench.model.verdict import RecordedVerdict
from specbench.recording.durable import (
    Journal,
    read_journal,
    sync_folder,
    unwritable,
    write_atomically,
    write_private,
)
from specbench.recording.entries import Entry, TrialSealed
from specbench.recording.paths import RecordingPaths, recording_name
from specbench.recording.reader import check_schema, read_manifest, sealed_files
from specbench.recording.sealed import Manifest, SealedTrial

_encode = msgspec.json.encode
_decode_trial = msgspec.json.Decoder(SealedTrial).decode


def utc_now() -> str:
    """Tell the present in UTC, ISO 8601; for correlation with logs, never for durations."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


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
        lock = _take_lock(paths)
        writer = cls(paths, lock, resumed=False, secrets=secrets)
        writer._write(paths.manifest, manifest)
        return writer

    @classmethod
    def resume(cls, root: Path, *, secrets: Secrets = NO_SECRETS) -> Self:
        """Go on with the recording in `root`.

        Raises RecordingError when another run holds it or a newer specbench wrote it.
        """
        paths = RecordingPaths(root)
        check_schema(read_manifest(root), paths.manifest)
        return cls(paths, _take_lock(paths), resumed=True, secrets=secrets)

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
        entry.at = utc_now()
        with self._mutex:
            self._journal.append(self._secrets.hide_in(msgspec.to_builtins(entry)))

    def heartbeat(self, state: dict[str, Any]) -> None:
        """Leave the present state for `specbench status`; not durable, and never an error."""
        aside = self.paths.progress.with_suffix(f".{threading.get_ident()}")
        try:
            told = {"at": utc_now(), "pid": os.getpid(), **msgspec.to_builtins(state)}
            write_private(aside, _encode(self._secrets.hide_in(told)))
            aside.replace(self.paths.progress)
        except OSError:
            return  # a full disk is reported by the next journal entry, with a way out

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

    def write_block_facts(self, block_id: str, facts: dict[str, Any]) -> None:
        """Keep what the server of a block said of itself."""
        self._write(self.paths.block_facts(block_id), facts)

    def describe_host(self, name: str, facts: dict[str, Any]) -> None:
        """Keep in the manifest what a host said of itself; the blocks keep it for each launch."""
        told = msgspec.json.decode(_encode(facts))  # as it will be read back: no tuples
        with self._mutex:
            manifest = read_manifest(self.paths.root)
            known = manifest.get("host_facts") or {}
            if told and known.get(name) != told:
                manifest["host_facts"] = {**known, name: told}
                self._write(self.paths.manifest, manifest)

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
            self._write(draft / "trial.json", sealed)
            with self._mutex:
                if final.exists():
                    self.paths.superseded.mkdir(mode=0o700, exist_ok=True)
                    final.rename(_free_name(self.paths.superseded, trial_id))
                draft.rename(final)
                sync_folder(self.paths.trials)
        except OSError as error:
            raise unwritable(draft, error) from error
        self._note_sealed(sealed)

    def write_verdict(self, name: str, document: RecordedVerdict) -> None:
        """Keep one verdict document under `verdicts/`."""
        self._write(self.paths.verdicts / f"{name}.json", document)

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

    def _write(self, path: Path, document: object) -> None:
        """Write a document as a whole, without secrets."""
        told = self._secrets.hide_in(msgspec.to_builtins(document))
        write_atomically(path, msgspec.json.format(_encode(told), indent=1))

    def _note_sealed(self, sealed: SealedTrial) -> None:
        self.note(
            TrialSealed(
                trial_id=sealed.trial.trial_id,
                cell_id=sealed.trial.cell.cell_id,
                block_id=sealed.trial.block_id,
                status=sealed.status,
                reason=sealed.reason,
                requests_sha256=sealed.requests_sha256,
            )
        )

    def _adopt_unlisted_trials(self) -> None:
        """Enter trials that were sealed by a rename just before a kill."""
        listed = {
            (entry.get("trial_id"), entry.get("requests_sha256"))
            for entry in read_journal(self.paths.journal)
            if entry.get("kind") == "trial_sealed"
        }
        for file in sealed_files(self.paths):
            sealed = _decode_trial(file.read_bytes())
            if (sealed.trial.trial_id, sealed.requests_sha256) not in listed:
                self._note_sealed(sealed)

    def _remove_drafts(self) -> None:
        for draft in self.paths.trials.glob(".*.draft"):
            shutil.rmtree(draft, ignore_errors=True)


def _take_lock(paths: RecordingPaths) -> IO[str]:
    """Hold the recording for this process; the kernel lets go of it however the process ends."""
    try:
        lock = paths.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise unwritable(paths.lock, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "another process"
        lock.close()
        raise RecordingError(
            f"this recording is being written by {owner}",
            where=str(paths.root),
            hint="wait for it (`specbench status`), stop it, or give another --results folder",
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} since {utc_now()}\n")
    lock.flush()
    return lock


def _free_name(folder: Path, stem: str) -> Path:
    number = 1
    while (folder / f"{stem}.{number}").exists():
        number += 1
    return folder / f"{stem}.{number}"


def _hash_durably(path: Path) -> str:
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return digest
