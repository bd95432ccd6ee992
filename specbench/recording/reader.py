"""The read side: a recording as a person sees it - tables, blocks, verdicts."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.columns import names_from, shown_in
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import RequestRecord
from specbench.model.verdict import RecordedVerdict
from specbench.recording import checking
from specbench.recording.damage import CHANGED, Damage, Listed, Unusable, changed_files, read_bytes
from specbench.recording.entries import Entry
from specbench.recording.finding import missing_manifest
from specbench.recording.lock import is_locked
from specbench.recording.paths import RecordingPaths
from specbench.recording.progress import cut_short
from specbench.recording.sealed import Manifest, SealedTrial

if TYPE_CHECKING:
    import pandas as pd

Summarise = Callable[[SealedTrial, Iterable[RequestRecord]], dict[str, Any]]

RESTORE = "restore the recording from where it was made, or measure again: `specbench run --fresh`"

_decode_request = msgspec.json.Decoder(RequestRecord).decode


class Recording:
    """One recording, opened for reading; it never changes what is on disk.

    What is not as it was written is left out and named in `damage`. `summarise` computes the
    summary columns of a trial whose stored row was computed by other definitions than version
    `row_version`; where no hash of a stored row is known, it is held against what its requests
    give. None trusts the stored rows. Without `hashed` the requests are not held against their
    hashes: for a quick look at durations.
    """

    def __init__(
        self,
        root: Path,
        *,
        summarise: Summarise | None = None,
        row_version: int = 0,
        hashed: bool = True,
    ) -> None:
        self.path = root
        self.paths = RecordingPaths(root)
        self.manifest = _manifest(read_manifest(root), self.paths.manifest)
        self._summarise = summarise
        self._row_version = row_version
        self._hashed = hashed

    def __repr__(self) -> str:
        ok = sum(sealed.status == "ok" for sealed in self.sealed)
        begun = self.manifest.created_at[:16].replace("T", " ")
        when = f"begun {begun}, " if begun else ""
        told = f"{when}{len(self.sealed)} trials sealed, {ok} ok"
        harm = f", {len(self.damage)} files damaged (see .damage)" if self.damage else ""
        return f"<Recording {self.path.name}: {told}{harm}>"

    def _repr_html_(self) -> str:
        """Show a notebook what is inside; pandas escapes the cells."""
        told = f"<p><b>{escape(self.path.name)}</b>: {len(self.trials)} timed trials</p>"
        told += "".join(f"<p>{escape(str(one))}</p>" for one in self.damage)
        if self.trials.empty:
            return told
        shown = [column.name for column in shown_in("notebook")]
        columns = [*self.trials.columns[: self.trials.columns.get_loc("cell_id")], *shown]
        table = self.trials[columns].to_html(
            index=False, max_rows=20, border=0, na_rep="", float_format=lambda value: f"{value:.4g}"
        )
        return f"{told}{table}"

    @cached_property
    def _journal(self) -> tuple[list[Entry], list[Damage]]:
        return checking.read_entries(self.paths)

    @cached_property
    def _listed(self) -> Listed:
        return Listed.of(self.journal)

    @cached_property
    def _trials(self) -> tuple[list[SealedTrial], list[Damage]]:
        return checking.sealed_trials(self.paths, self._listed, hashed=self._hashed)

    @cached_property
    def _verdicts(self) -> tuple[list[RecordedVerdict], list[Damage]]:
        return checking.recorded_verdicts(self.paths, self._listed)

    @cached_property
    def _facts(self) -> tuple[dict[str, BlockFacts], list[Damage]]:
        return checking.block_facts(self.paths, self._listed)

    @property
    def journal(self) -> list[Entry]:
        """The journal's entries, in order."""
        return self._journal[0]

    @property
    def sealed(self) -> list[SealedTrial]:
        """All sealed trials that can be used, by time of their start."""
        return self._trials[0]

    @property
    def verdicts(self) -> list[RecordedVerdict]:
        """Verdict documents (contract section 7), each with the launch that it is about."""
        return self._verdicts[0]

    @property
    def blocks(self) -> dict[str, BlockFacts]:
        """What each launched server said of itself, by block_id."""
        return self._facts[0]

    @cached_property
    def damage(self) -> list[Damage]:
        """What is not as it was written, by file, and what that costs; empty where all is well."""
        trials, lost = self._trials
        known = {one.trial.trial_id for one in trials} | {one.trial_id for one in lost}
        can = f"; {len(trials)} of {len(known)} sealed trials can be used"
        rest = changed_files(self.paths, self._listed, self._read_elsewhere())
        found = [
            *_manifest_damage(self.paths, self._listed),
            *self._journal[1],
            *cut_short(self.paths),
            *self._unlisted(),
            *lost,
            *self._facts[1],
            *self._verdicts[1],
            *rest,
        ]
        return [msgspec.structs.replace(one, left=one.left + can) for one in found]

    def _read_elsewhere(self) -> list[str]:
        facts = [p for p in self._listed.below("blocks") if p.endswith("/facts.json")]
        return [*facts, *self._listed.below("verdicts")]

    def _unlisted(self) -> list[Damage]:
        """Name the trials that the journal lacks; while a run seals one, that is no damage."""
        unknown = checking.unlisted_trials(self.paths, self._listed, self.sealed)
        if not unknown or is_locked(self.paths):
            return []
        names = ", ".join(one.trial.trial_id for one in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        what = f"does not list {len(unknown)} trials that are sealed ({names}{more})"
        left = "they are used; the journal was cut, or a run was killed as it sealed them"
        return [Damage(file="journal.jsonl", what=what, left=left)]

    def requests_of(self, trial_id: str) -> Iterator[RequestRecord]:
        """Stream the request records of one sealed trial, as they were when it was sealed.

        Raises RecordingError where the file is missing, damaged or another than was sealed.
        """
        path = self.paths.trial(trial_id) / "requests.jsonl"
        number = 0
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):  # noqa: B007 - named in the error
                    yield _decode_request(line)
        except NOT_JSON as error:
            raise RecordingError(
                f"a request is damaged: {why_not(error)}", where=f"{path}:{number}"
            ) from error
        except OSError as error:
            raise RecordingError(
                f"the requests of a sealed trial cannot be read: {error.strerror or error}",
                where=str(path),
            ) from error

    def row_of(self, sealed: SealedTrial) -> dict[str, Any]:
        """Give the summary columns of one trial, computed again where definitions moved on.

        They have moved on where the version says so, or a column of today was not computed then.
        Raises RecordingError, with the name of the column, where the journal knows no hash of a
        trial and its row is not what its requests give.
        """
        today = sealed.row_version == self._row_version
        if self._summarise is None or (today and not sealed.row):
            return sealed.row
        complete = sealed.row.keys() >= set(names_from("requests", optional=False))
        listed = self._listed.trials.get(sealed.trial.trial_id)
        if today and complete and listed is not None and listed.trial_sha256:
            return sealed.row
        known = self._summarise(sealed, self.requests_of(sealed.trial.trial_id))
        if not today or not complete:
            return known
        _refuse_edited(sealed.row, known, self.paths.trial(sealed.trial.trial_id) / "trial.json")
        return sealed.row

    @cached_property
    def trials(self) -> "pd.DataFrame":
        """One row a timed trial: factors, then the columns of contract section 6."""
        from specbench.recording.tables import trials_table  # noqa: PLC0415 - pandas is slow to load

        return trials_table(self)

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """One row a request, of all timed trials."""
        from specbench.recording.tables import requests_table  # noqa: PLC0415 - as above

        return requests_table(self)


def read_manifest(root: Path) -> dict[str, Any]:
    """Read `manifest.json`; RecordingError when `root` is no recording."""
    path = root / "manifest.json"
    try:
        manifest = json.loads(read_bytes(path))
    except Unusable as problem:
        if not path.exists():
            raise missing_manifest(root) from None
        raise _damaged(path, f"the manifest {problem}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"the manifest is damaged: {why_not(error)}") from error
    if not isinstance(manifest, dict):
        raise _damaged(path, "the manifest is damaged: it is not a JSON object")
    return manifest


def _manifest(content: dict[str, Any], path: Path) -> Manifest:
    checking.check_schema(content, path)
    try:
        return msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise _damaged(path, f"the manifest is damaged: {error}") from error


def _damaged(manifest: Path, what: str) -> RecordingError:
    """Say that a manifest cannot be used, and what else there is."""
    sealed = len(checking.trial_folders(RecordingPaths(manifest.parent)))
    hint = f"restore it from a copy; its {sealed} sealed trials are untouched"
    return RecordingError(what, where=str(manifest), hint=hint)


def _manifest_damage(paths: RecordingPaths, listed: Listed) -> list[Damage]:
    try:
        content = read_bytes(paths.manifest)
    except Unusable:
        return []  # it was there a moment ago
    if not listed.manifests or hashlib.sha256(content).hexdigest() in listed.manifests:
        return []
    left = "what it says of the matrix, hosts and datasets is in doubt"
    return [Damage(file="manifest.json", what=CHANGED, left=left)]


def _refuse_edited(stored: dict[str, Any], known: dict[str, Any], file: Path) -> None:
    """Refuse a row with a number that its requests do not give."""
    for name, value in known.items():
        said = stored.get(name, value)
        if _number(value) and _number(said) and math.isclose(value, said, rel_tol=1e-9):
            continue
        if said != value and (_number(value) or _number(said)):
            raise RecordingError(
                f"{name} was changed after the trial was sealed: {said} stands there, and its"
                f" requests give {value}",
                where=str(file),
                hint=RESTORE,
            )


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
