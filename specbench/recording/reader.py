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
from specbench.model.columns import names_from, shown_in
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import RequestRecord
from specbench.model.verdict import RecordedVerdict
from specbench.recording.durable import read_journal
from specbench.recording.entries import Entry, entry_of
from specbench.recording.paths import RecordingPaths
from specbench.recording.sealed import SCHEMA, Manifest, SealedTrial
from specbench.recording.upgrade import upgraded

if TYPE_CHECKING:
    import pandas as pd

Summarise = Callable[[SealedTrial, Iterable[RequestRecord]], dict[str, Any]]

RESTORE = "restore the recording from where it was made, or measure again: `specbench run --fresh`"

_decode_request = msgspec.json.Decoder(RequestRecord).decode
_decode_trial = msgspec.json.Decoder(SealedTrial).decode


def read_manifest(root: Path) -> dict[str, Any]:
    """Read `manifest.json`; RecordingError when `root` is no recording."""
    path = root / "manifest.json"
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RecordingError(
            "this is not a recording: it has no manifest.json",
            where=str(root),
            hint="give the folder that `specbench run` printed, or the --results folder above it",
        ) from None
    except (ValueError, RecursionError) as error:
        raise RecordingError(
            f"the manifest is damaged: {why_not(error)}", where=str(path)
        ) from error
    if not isinstance(manifest, dict):
        raise RecordingError("the manifest is not a JSON object", where=str(path))
    return manifest


def check_schema(manifest: dict[str, Any], path: Path) -> None:
    """Refuse, politely, what a newer specbench wrote."""
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise RecordingError(
            f"written with recording schema {schema!r}; this specbench reads up to {SCHEMA}",
            where=str(path),
            hint="upgrade: install a newer specbench",
        )


def find_recordings(results: Path, name: str | None = None) -> list[Path]:
    """List recordings under `results`, oldest first, of the matrix `name` if given."""
    found = [folder.parent for folder in results.glob("*/manifest.json")]
    if name is not None:
        found = [folder for folder in found if read_manifest(folder).get("name") == name]
    return sorted(found, key=lambda folder: folder.name)


def sealed_files(paths: RecordingPaths) -> list[Path]:
    """List the `trial.json` of every sealed trial; drafts are not sealed."""
    files = paths.trials.glob("*/trial.json")
    return sorted(file for file in files if not file.parent.name.startswith("."))


class Recording:
    """One recording, opened for reading; it never changes what is on disk.

    `summarise` computes the summary columns of a trial from its requests: a stored row of other
    definitions than version `row_version` is replaced, and one of these is refused where it says
    something else. None trusts the stored rows.
    """

    def __init__(
        self, root: Path, *, summarise: Summarise | None = None, row_version: int = 0
    ) -> None:
        self.path = root
        self.paths = RecordingPaths(root)
        self.manifest = _manifest(read_manifest(root), self.paths.manifest)
        self._summarise = summarise
        self._row_version = row_version

    def __repr__(self) -> str:
        ok = sum(sealed.status == "ok" for sealed in self.sealed)
        begun = self.manifest.created_at[:16].replace("T", " ")
        when = f"begun {begun}, " if begun else ""
        return f"<Recording {self.path.name}: {when}{len(self.sealed)} trials sealed, {ok} ok>"

    def _repr_html_(self) -> str:
        """Show a notebook what is inside; pandas escapes the cells."""
        told = f"<p><b>{escape(self.path.name)}</b>: {len(self.trials)} timed trials</p>"
        if self.trials.empty:
            return told
        shown = [column.name for column in shown_in("notebook")]
        columns = [*self.trials.columns[: self.trials.columns.get_loc("cell_id")], *shown]
        table = self.trials[columns].to_html(
            index=False, max_rows=20, border=0, na_rep="", float_format=lambda value: f"{value:.4g}"
        )
        return f"{told}{table}"

    @cached_property
    def journal(self) -> list[Entry]:
        """The journal's entries, in order."""
        where = str(self.paths.journal)
        return [entry_of(line, where) for line in read_journal(self.paths.journal)]

    @cached_property
    def sealed(self) -> list[SealedTrial]:
        """All sealed trials, by time of their start."""
        trials = [_read_sealed(file) for file in sealed_files(self.paths)]
        return sorted(trials, key=lambda sealed: (sealed.started_at, sealed.trial.trial_id))

    @cached_property
    def verdicts(self) -> list[RecordedVerdict]:
        """Verdict documents (contract section 7), each with the launch that it is about."""
        return [_read_verdict(file) for file in sorted(self.paths.verdicts.glob("*.json"))]

    @cached_property
    def blocks(self) -> dict[str, dict[str, Any]]:
        """What each launched server said of itself, by block_id."""
        return {
            file.parent.name: _read_facts(file)
            for file in sorted(self.paths.blocks.glob("*/facts.json"))
        }

    def requests_of(self, trial_id: str) -> Iterator[RequestRecord]:
        """Stream the request records of one sealed trial, as they were when it was sealed.

        Raises RecordingError where the file is missing, damaged or another than was sealed.
        """
        path = self.paths.trial(trial_id) / "requests.jsonl"
        try:
            file = path.open("rb")
        except FileNotFoundError as error:
            raise RecordingError("the requests of a trial are missing", where=str(path)) from error
        with file:
            known = self._hashes.get(trial_id)
            if known and hashlib.file_digest(file, "sha256").hexdigest() != known:
                raise RecordingError(
                    "the requests of a trial were changed after it was sealed",
                    where=str(path),
                    hint=RESTORE,
                )
            file.seek(0)
            for number, line in enumerate(file, start=1):
                try:
                    yield _decode_request(line)
                except NOT_JSON as error:
                    raise RecordingError(
                        f"a request is damaged: {why_not(error)}", where=f"{path}:{number}"
                    ) from error

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {sealed.trial.trial_id: sealed.requests_sha256 for sealed in self.sealed}

    def row_of(self, sealed: SealedTrial) -> dict[str, Any]:
        """Give the summary columns of one trial, computed again where definitions moved on.

        They have moved on where the version says so, or a column of today was not computed then.
        Raises RecordingError, with the name of the column, where a stored row is not what its
        requests give.
        """
        today = sealed.row_version == self._row_version
        if self._summarise is None or (today and not sealed.row):
            return sealed.row
        known = self._summarise(sealed, self.requests_of(sealed.trial.trial_id))
        if not today or not sealed.row.keys() >= set(names_from("requests", optional=False)):
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


def _manifest(content: dict[str, Any], path: Path) -> Manifest:
    check_schema(content, path)
    try:
        return msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise RecordingError(f"the manifest is damaged: {error}", where=str(path)) from error


def _read_facts(file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordingError(
            f"what a server said is damaged: {why_not(error)}", where=str(file)
        ) from error
    if not isinstance(facts, dict):
        raise RecordingError("what a server said is not a JSON object", where=str(file))
    return facts


def _read_verdict(file: Path) -> RecordedVerdict:
    try:
        return msgspec.convert(upgraded(json.loads(file.read_bytes())), RecordedVerdict)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"a verdict is damaged: {why_not(error)}", where=str(file)) from error


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


def _read_sealed(file: Path) -> SealedTrial:
    content = file.read_bytes()
    try:
        sealed = _decode_trial(content)
    except NOT_JSON as error:
        raise RecordingError(
            f"a sealed trial is damaged: {why_not(error)}", where=str(file)
        ) from error
    if sealed.schema > SCHEMA:
        check_schema({"schema": sealed.schema}, file)
    return sealed
