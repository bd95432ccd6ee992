"""What one run leaves on disk: journal, sealed trials, tidy tables, schema versions."""

from specbench.recording.damage import Damage
from specbench.recording.finding import find_recordings
from specbench.recording.lock import utc_now
from specbench.recording.paths import RecordingPaths
from specbench.recording.reader import Recording, read_manifest
from specbench.recording.sealed import SCHEMA, Manifest, SealedTrial
from specbench.recording.writer import Writer

__all__ = [
    "SCHEMA",
    "Damage",
    "Manifest",
    "Recording",
    "RecordingPaths",
    "SealedTrial",
    "Writer",
    "find_recordings",
    "read_manifest",
    "utc_now",
]
