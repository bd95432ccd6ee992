"""What a report rests on: a recording's tables, held in as little memory as the report needs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd
import yaml

from specbench.analysis.arms import with_plain_texts
from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import RequestRecord
from specbench.model.verdict import RecordedVerdict
from specbench.recording import Damage, Recording
from specbench.recording.entries import BlockLost, Entry
from specbench.recording.sealed import Manifest, SealedTrial
from specbench.report.trial_facts import with_facts
from specbench.stats.steady import window_ends

_TEXT = ("prompt_id", "category", "phase", "status", "reason", "finish_reason", "count_source")
_NUMBERS = (
    "intended_ns", "written_ns", "first_token_ns", "last_token_ns", "end_ns", "prompt_tokens",
    "output_tokens", "cached_tokens", "retractions", "tokens_in_first_chunk", "spec_verify_ct",
    "spec_accepted", "spec_proposed",
)  # fmt: skip
_LISTS = ("chunk_ns", "chunk_tokens")
"""Kept of the replies that the steady window cuts: what else a comparison reads."""

MOST_TEXTS = 3
DIGEST = "output_digest"
_DIGITS = 13
"""Hexadecimal digits of a reply's hash that a float64 holds exactly."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """One recording as a report sees it.

    `trials`: columns of contract section 6. `requests`: one row a request of a timed trial, with
    `trial_id`, `cell_id` and the scalar fields of RequestRecord; chunk times are left out but where
    the steady window cuts a reply, for a
    million requests have a hundred million of them; `output_digest` is a number that is equal where
    the bytes of two replies are. `histograms`: trial_id -> verify steps that
    accepted exactly k drafts, summed over the measured requests. `gpu`: block_id -> samples.
    `settings`: trial_id -> the workload, sampling and client of each trial. `launches`: block_id ->
    the `argv` and `env` that a server was started with. `texts`: cell_id ->
    prompt_id -> a reply that was kept. `damage`: files that are not as they were written. Compared
    by identity, so that what is computed from it can be kept.
    """

    name: str
    path: Path
    manifest: Manifest
    trials: pd.DataFrame
    requests: pd.DataFrame
    histograms: dict[str, list[int]] = field(default_factory=dict)
    blocks: dict[str, BlockFacts] = field(default_factory=dict)
    verdicts: list[RecordedVerdict] = field(default_factory=list)
    journal: list[Entry] = field(default_factory=list)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    gpu: dict[str, pd.DataFrame] = field(default_factory=dict)
    launches: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)

    @cached_property
    def matrix(self) -> dict[str, Any]:
        """The matrix as written in the manifest; empty where there is none to be read."""
        try:
            content = yaml.safe_load(self.manifest.matrix)
        except yaml.YAMLError:
            return {}  # the run itself refuses such a matrix; a foreign recording may carry one
        return content if isinstance(content, dict) else {}

    @cached_property
    def compared(self) -> pd.DataFrame:
        """The trials with what was recorded beside them, as every comparison reads them."""
        return with_facts(self.trials, self.settings)

    @property
    def failed_blocks(self) -> list[BlockLost]:
        """The launches that failed, in order, from the journal."""
        return [entry for entry in self.journal if isinstance(entry, BlockLost)]

    @property
    def control(self) -> str:
        """The arm that everything is compared with (`control:` of the matrix, else `ar`)."""
        return str(self.matrix.get("control") or "ar")


Source: TypeAlias = Recording | Evidence


def evidence_of(source: Source) -> Evidence:
    """Give a source as evidence, reading it if it is a recording."""
    return source if isinstance(source, Evidence) else gather(source)


@lru_cache(maxsize=2)
def gather(recording: Recording) -> Evidence:
    """Read a recording once, request by request; memory is bounded by the scalar columns.

    Raises RecordingError where a file of the recording is damaged.
    """
    timed = [sealed for sealed in recording.sealed if sealed.trial.kind == "timed"]
    columns = _Columns()
    histograms = {}
    damage = list(recording.damage)
    for sealed in timed:
        trial_id = sealed.trial.trial_id
        records = _records(recording, sealed)
        histograms[trial_id] = columns.add(trial_id, sealed.trial.cell.cell_id, records)
    return Evidence(
        name=recording.path.name,
        path=recording.path,
        manifest=recording.manifest,
        trials=with_plain_texts(_with_algorithm(recording.trials)),
        requests=columns.table(),
        histograms={key: counts for key, counts in histograms.items() if counts},
        blocks=recording.blocks,
        verdicts=recording.verdicts,
        journal=recording.journal,
        settings={
            s.trial.trial_id: {
                "workload": s.workload,
                "sampling": s.sampling,
                "client": s.client,
            }
            for s in timed
        },
        gpu=dict(_gpu_samples(recording, damage)),
        launches=dict(_launches(recording, damage)),
        damage=damage,
        texts=columns.texts,
    )


def _with_algorithm(trials: pd.DataFrame) -> pd.DataFrame:
    """Give a table without a trial the one factor that every matrix has."""
    if "algorithm" in trials.columns:
        return trials
    return pd.concat([pd.DataFrame(columns=pd.Index(["algorithm"])), trials], axis=1)


def _field(one: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if one.required:
        return one.name, one.type
    if one.default_factory is not msgspec.NODEFAULT:
        return one.name, one.type, msgspec.field(default_factory=one.default_factory)
    return one.name, one.type, one.default


_Request = msgspec.defstruct(
    "_Request",
    [
        _field(one)
        for one in msgspec.structs.fields(RequestRecord)
        if one.name in {*_TEXT, *_NUMBERS, *_LISTS, "spec_histogram", "output_sha256", "text"}
    ],
    kw_only=True,
)
"""The fields of a RequestRecord that a report needs: the others are passed over unread."""

_decode_requests = msgspec.json.Decoder(_Request).decode_lines
_texts, _numbers = attrgetter(*_TEXT), attrgetter(*_NUMBERS)


def _records(recording: Recording, sealed: SealedTrial) -> list[Any]:
    path = recording.paths.trial(sealed.trial.trial_id) / "requests.jsonl"
    try:
        return _decode_requests(path.read_bytes())
    except (OSError, *NOT_JSON) as error:
        raise RecordingError(
            f"the requests of a sealed trial cannot be read: {error}", where=str(path)
        ) from error


class _Columns:
    """Column store that grows trial by trial: text as codes, numbers as float64."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _TEXT}
        self._parts: dict[str, list[np.ndarray]] = {n: [] for n in (*_TEXT, *_NUMBERS, DIGEST)}
        self._lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
        self._owners: list[tuple[str, str, int]] = []
        self.texts: dict[str, dict[str, str]] = {}

    def add(self, trial_id: str, cell_id: str, rows: Sequence[Any]) -> list[int]:
        """Take one trial's records; give its pooled acceptance histogram."""
        if not rows:
            return []
        self._owners.append((trial_id, cell_id, len(rows)))
        for name, texts in zip(_TEXT, zip(*map(_texts, rows), strict=True), strict=True):
            codes = self._codes[name]
            for text in dict.fromkeys(texts):
                codes.setdefault(text or "", len(codes))
            values = [codes[text or ""] for text in texts]
            self._parts[name].append(np.array(values, dtype=np.int32))
        for name, numbers in zip(_NUMBERS, zip(*map(_numbers, rows), strict=True), strict=True):
            self._parts[name].append(np.array(numbers, dtype=np.float64))  # None becomes NaN
        self._keep_texts(cell_id, rows)
        cut = _cut(rows)
        for name in _LISTS:
            own = [getattr(row, name) if i in cut else None for i, row in enumerate(rows)]
            self._lists[name] += own
        self._parts[DIGEST].append(np.array([_digest(row) for row in rows], dtype=np.float64))
        return pooled_histogram(rows)

    def _keep_texts(self, cell_id: str, rows: Sequence[Any]) -> None:
        """Keep the first reply of a cell to each of a few prompts."""
        kept = self.texts.setdefault(cell_id, {})
        for row in rows:
            if len(kept) >= MOST_TEXTS:
                return
            if row.text is not None and row.phase == "measured" and row.status == "ok":
                kept.setdefault(row.prompt_id, row.text)

    def table(self) -> pd.DataFrame:
        """Give everything taken so far as one frame."""
        lengths = [length for *_, length in self._owners]
        table: dict[str, Any] = {}
        for position, name in enumerate(("trial_id", "cell_id")):
            labels = list(dict.fromkeys(str(owner[position]) for owner in self._owners))
            at = {label: code for code, label in enumerate(labels)}
            codes = np.repeat([at[str(owner[position])] for owner in self._owners], lengths)
            table[name] = pd.Categorical.from_codes(codes.astype(np.int32), pd.Index(labels))
        for name in _TEXT:
            codes = _joined(self._parts[name], np.int32)
            table[name] = pd.Categorical.from_codes(codes, pd.Index(list(self._codes[name])))
        for name in (*_NUMBERS, DIGEST):
            table[name] = _joined(self._parts[name], np.float64)
        for name in _LISTS:
            table[name] = pd.Series(self._lists[name], dtype=object)
        return pd.DataFrame(table)


def _cut(rows: Sequence[Any]) -> set[int]:
    """Name the measured replies that end after the steady window of their trial."""
    measured = [i for i, row in enumerate(rows) if row.phase == "measured"]
    if not measured:
        return set()
    sent = np.array([rows[i].written_ns for i in measured], dtype=np.float64)
    ended = np.array([rows[i].end_ns for i in measured], dtype=np.float64)
    _, close = window_ends(np.zeros(len(measured), dtype=np.int64), sent, ended, 1)
    return {i for i, end in zip(measured, ended, strict=True) if end > close[0]}


def _digest(row: Any) -> float | None:
    return int(row.output_sha256[:_DIGITS], 16) if row.output_sha256 else None


def _joined(parts: list[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def pooled_histogram(records: Iterable[Any]) -> list[int]:
    """Sum the acceptance histograms of the measured requests that ended well."""
    pooled: list[int] = []
    for record in records:
        if record.phase != "measured" or record.status != "ok" or not record.spec_histogram:
            continue
        pooled.extend([0] * (len(record.spec_histogram) - len(pooled)))
        for accepted, steps in enumerate(record.spec_histogram):
            pooled[accepted] += steps
    return pooled


def _launches(recording: Recording, damage: list[Damage]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in _whole(recording, "*/launch.json", damage):
        try:
            yield path.parent.name, msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, *NOT_JSON) as error:
            damage.append(_unreadable(recording, path, why_not(error)))


def _gpu_samples(recording: Recording, damage: list[Damage]) -> Iterator[tuple[str, pd.DataFrame]]:
    for path in _whole(recording, "*/gpu.csv", damage):
        try:
            yield path.parent.name, pd.read_csv(path)
        except (OSError, ValueError) as error:  # ValueError: empty, malformed or not UTF-8
            damage.append(_unreadable(recording, path, str(error)))


def _whole(recording: Recording, pattern: str, damage: Iterable[Damage]) -> list[Path]:
    """List the files of launches that are as they were written, as far as that is known."""
    known = {recording.path / one.file for one in damage}
    return [path for path in sorted(recording.paths.blocks.glob(pattern)) if path not in known]


def _unreadable(recording: Recording, path: Path, why: str) -> Damage:
    """Name a file that no hash had spoken against."""
    left = f"it is left out; {len(recording.sealed)} sealed trials can be used"
    name = str(path.relative_to(recording.path))
    return Damage(file=name, what=f"is damaged ({why})", left=left)
