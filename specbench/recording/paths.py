"""Where everything of a recording lies: the only place that knows its file names."""

import datetime as dt
import re
from pathlib import Path


class RecordingPaths:
    """File names inside one recording (contract section 5)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = root / "manifest.json"
        self.journal = root / "journal.jsonl"
        self.lock = root / "lock"
        self.progress = root / "progress.json"
        self.blocks = root / "blocks"
        self.trials = root / "trials"
        self.superseded = root / "trials" / "superseded"
        self.tables = root / "tables"
        self.verdicts = root / "verdicts"
        self.report = root / "report"

    def block(self, block_id: str) -> Path:
        """Folder of one launch: command, server.log, facts."""
        return self.blocks / block_id

    def block_facts(self, block_id: str) -> Path:
        """Name the file of what the launched server said of itself."""
        return self.block(block_id) / "facts.json"

    def trial(self, trial_id: str) -> Path:
        """Folder of one sealed trial."""
        return self.trials / trial_id

    def draft(self, trial_id: str) -> Path:
        """Folder of a trial being measured; it becomes `trial(trial_id)` by one rename."""
        return self.trials / f".{trial_id}.draft"


def slug_of(matrix_name: str) -> str:
    """Make a name fit for a folder: hostile ones (slashes, newlines, `..`) get dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", matrix_name).strip("-.")[:60] or "matrix"


def recording_name(matrix_name: str, content_hash: str, now: dt.datetime) -> str:
    """Folder name of a new recording: UTC time, readable name, content hash."""
    return f"{now:%Y%m%dT%H%M%S%fZ}-{slug_of(matrix_name)}-{content_hash[:8]}"
