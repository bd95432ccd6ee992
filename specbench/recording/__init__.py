"""What one run leaves on disk: journal, sealed trials, tidy tables, schema versions."""

from specbench.recording.paths import RecordingPaths
from specbench.recording.reader import Recording, find_recordings, read_manifest
from specbench.recording.sealed import SCHEMA, Manifest, SealedTrial
from specbench.recording.writer import Writer, utc_now

__all__ = [
    "SCHEMA",
    "Manifest",
    "Recording",
    "RecordingPaths",
    "SealedTrial",
    "Writer",
    "find_recordings",
    "read_manifest",
    "utc_now",
]
