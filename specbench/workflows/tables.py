"""Write the derived tables of a recording; they can be rebuilt from the sealed trials."""

from specbench.recording import Writer
from specbench.recording.tables import write_parquet
from specbench.workflows.recording_open import open_recording


def write_tables(writer: Writer) -> None:
    """Write `tables/trials.csv`, `trials.parquet` and `requests.parquet`.

    Raises RecordingError when the disk is full; the sealed trials are safe.
    """
    recording = open_recording(writer.paths.root)
    if recording.trials.empty:
        return
    writer.write_table("trials.csv", lambda path: recording.trials.to_csv(path, index=False))
    writer.write_table("trials.parquet", lambda path: write_parquet(recording.trials, path))
    writer.write_table("requests.parquet", lambda path: write_parquet(recording.requests, path))
