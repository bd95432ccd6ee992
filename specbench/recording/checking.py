"""Reads the parts of a recording, each held against its hash: what is damaged is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.columns import BY_NAME
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.verdict import RecordedVerdict
from specbench.recording.damage import CHANGED, Damage, Listed, Unusable, check_file, read_bytes
from specbench.recording.durable import journal_lines
from specbench.recording.entries import Entry, TrialSealed, entry_of
from specbench.recording.paths import RecordingPaths
from specbench.recording.sealed import SCHEMA, SealedTrial
from specbench.recording.upgrade import upgraded

LEFT_OUT = "that trial is left out"
NO_LINE = "what a damaged line says is not relied on; sealed trials keep their own hashes"
_ODD = (ValueError, RecursionError, msgspec.DecodeError)
Document = TypeVar("Document")
_decode_trial = msgspec.json.Decoder(SealedTrial).decode


def check_schema(manifest: dict[str, Any], path: Path) -> None:
    """Refuse, politely, what a newer specbench wrote."""
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise RecordingError(
            f"written with recording schema {schema!r:.80}; this specbench reads up to {SCHEMA}",
            where=str(path),
            hint="upgrade: install a newer specbench",
        )


def read_entries(paths: RecordingPaths) -> tuple[list[Entry], list[Damage]]:
    """Read the journal; what cannot be read of it is left out and named."""
    entries, damage = [], []
    try:
        lines = list(journal_lines(paths.journal))
    except RecordingError as error:
        return [], [Damage(file="journal.jsonl", what=f"is damaged ({error.what})", left=NO_LINE)]
    for number, line, problem in lines:
        what = problem
        if line:
            try:
                entries.append(entry_of(line, str(paths.journal)))
            except RecordingError as error:
                what = error.what
        if what:
            told = f"is damaged in line {number} ({what})"
            damage.append(Damage(file="journal.jsonl", what=told, left=NO_LINE))
    return entries, damage


def trial_folders(paths: RecordingPaths) -> list[Path]:
    """List the folders of sealed trials; drafts are not sealed."""
    try:
        found = sorted(paths.trials.iterdir())
    except OSError:
        return []
    return [each for each in found if not each.name.startswith(".") and each != paths.superseded]


def sealed_trials(
    paths: RecordingPaths, listed: Listed, *, hashed: bool
) -> tuple[list[SealedTrial], list[Damage]]:
    """Read the sealed trials, by time of their start; those that are damaged are left out.

    `hashed` holds the request files against their hashes too.

    Raises RecordingError where a newer specbench wrote one.
    """
    sealed: list[SealedTrial] = []
    damage: list[Damage] = []
    folders = {folder.name: folder for folder in trial_folders(paths)}
    for name, folder in folders.items():
        try:
            sealed.append(_sealed(folder, _last_sealing(paths, listed, name), hashed=hashed))
        except _OfTrial as problem:
            damage.append(_of_trial(problem.file, problem.what, listed.trials.get(name), name))
    for name in sorted(set(listed.trials) - set(folders)):
        if not paths.trial(name).exists():
            what = "is missing, and the journal says that it was sealed"
            damage.append(_of_trial("", what, listed.trials[name], name))
    return sorted(sealed, key=lambda one: (one.started_at, one.trial.trial_id)), damage


def unlisted_trials(
    paths: RecordingPaths, listed: Listed, sealed: list[SealedTrial]
) -> list[SealedTrial]:
    """Give the trials that a journal does not list: a kill between their rename and its line."""
    names = (one.trial.trial_id for one in sealed)
    unknown = {name for name in names if _last_sealing(paths, listed, name) is None}
    return [one for one in sealed if one.trial.trial_id in unknown]


class _OfTrial(Exception):
    def __init__(self, file: str, what: str) -> None:
        super().__init__(what)
        self.file = file
        self.what = what


def _of_trial(file: str, what: str, listed: TrialSealed | None, name: str) -> Damage:
    path = f"trials/{name}/{file}" if file else f"trials/{name}"
    key = listed.key if listed else ""
    return Damage(file=path, what=what, left=LEFT_OUT, trial_id=name, key=key)


def _last_sealing(paths: RecordingPaths, listed: Listed, name: str) -> TrialSealed | None:
    """Give what the journal says of a trial's folder.

    None for one that was sealed again just before a kill: what is listed has been moved aside.
    """
    last = listed.trials.get(name)
    if last is None or not last.trial_sha256 or not paths.superseded.is_dir():
        return last
    for aside in paths.superseded.glob(f"{name}.*"):
        try:
            read_bytes(aside / "trial.json", last.trial_sha256)
        except Unusable:
            continue
        return None
    return last


def _sealed(folder: Path, listed: TrialSealed | None, *, hashed: bool) -> SealedTrial:
    file = folder / "trial.json"
    try:
        sealed = _decode_trial(read_bytes(file, listed.trial_sha256 if listed else ""))
    except Unusable as problem:
        raise _OfTrial(file.name, str(problem)) from problem
    except NOT_JSON as error:
        raise _OfTrial(file.name, f"is damaged ({why_not(error)})") from error
    if sealed.schema > SCHEMA:
        check_schema({"schema": sealed.schema}, file)
    if sealed.trial.trial_id != folder.name:
        raise _OfTrial(file.name, f"tells of another trial ({sealed.trial.trial_id!r:.80})")
    if listed and listed.requests_sha256 not in ("", sealed.requests_sha256):
        raise _OfTrial(file.name, CHANGED)
    if odd := _odd_column(sealed.row):
        raise _OfTrial(file.name, f"is damaged ({odd} is not a number)")
    if hashed:
        requests = folder / "requests.jsonl"
        try:
            check_file(requests, sealed.requests_sha256)
        except Unusable as problem:
            raise _OfTrial(requests.name, str(problem)) from problem
    return sealed


def _odd_column(row: dict[str, Any]) -> str:
    """Name a column of numbers that holds something else."""
    for name, value in row.items():
        column = BY_NAME.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if column and column.dtype != "text" and value is not None and not number:
            return name
    return ""


def block_facts(
    paths: RecordingPaths, listed: Listed
) -> tuple[dict[str, BlockFacts], list[Damage]]:
    """Read what each launched server said of itself, by block_id."""
    left = "what that server said of itself is left out, and cannot be compared"
    facts: dict[str, BlockFacts] = {}
    damage = []
    for path in _paths(paths, listed, "blocks", "facts.json"):
        try:
            document = _json(read_bytes(paths.root / path, listed.files.get(path, "")))
            said = _as(BlockFacts, document)
        except Unusable as problem:
            damage.append(Damage(file=path, what=str(problem), left=left))
        else:
            facts[Path(path).parent.name] = said
    return facts, damage


def recorded_verdicts(
    paths: RecordingPaths, listed: Listed
) -> tuple[list[RecordedVerdict], list[Damage]]:
    """Read the verdict documents, by name."""
    verdicts: list[RecordedVerdict] = []
    damage = []
    for path in _paths(paths, listed, "verdicts", ""):
        try:
            document = _json(read_bytes(paths.root / path, listed.files.get(path, "")))
            verdicts.append(_as(RecordedVerdict, upgraded(document)))
        except Unusable as problem:
            left = "that verdict is left out"
            damage.append(Damage(file=path, what=str(problem), left=left))
    return verdicts, damage


def _as(kind: type[Document], document: dict[str, Any]) -> Document:
    try:
        return msgspec.convert(document, kind)
    except _ODD as error:
        raise Unusable(f"is damaged ({why_not(error)})") from error


def _json(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except _ODD as error:
        raise Unusable(f"is damaged ({why_not(error)})") from error
    if not isinstance(document, dict):
        raise Unusable("is damaged (it is not a JSON object)")
    return document


def _paths(paths: RecordingPaths, listed: Listed, folder: str, name: str) -> Iterator[str]:
    """Give the paths of one kind, those that are there and those that should be."""
    pattern = f"*/{name}" if name else "*.json"
    there = {str(file.relative_to(paths.root)) for file in (paths.root / folder).glob(pattern)}
    should = {path for path in listed.below(folder) if not name or Path(path).name == name}
    yield from sorted(there | should)
