"""Small true-to-life trials for tests of the recording."""

from pathlib import Path

import msgspec

from specbench.model.load import Accuracy, DriveReport, RequestRecord
from specbench.model.matrix import Cell, Level
from specbench.model.plan import Trial
from specbench.recording import Manifest, SealedTrial, Writer


def manifest(name: str = "quick") -> Manifest:
    return Manifest(
        name=name,
        specbench="0",
        created_at="2026-01-01T00:00:00Z",
        matrix_path="m.yaml",
        matrix="name: quick\n",
    )


def trial(number: int, algorithm: str = "dflash", temperature: float = 0.0) -> Trial:
    levels: dict[str, Level] = {
        "algorithm": algorithm,
        "temperature": temperature,
        "concurrency": 4,
    }
    return Trial(
        trial_id=f"t{number:03d}",
        cell=Cell(cell_id=f"c{number:03d}", levels=levels),
        host="local",
        block_id="b0",
        replicate=0,
        launch=0,
        order=number,
        seed=1,
    )


def report() -> DriveReport:
    return DriveReport(
        start_unix_ns=0,
        measured_start_ns=0,
        measured_end_ns=2_000_000_000,
        window_start_ns=500_000_000,
        window_end_ns=1_500_000_000,
        requests=3,
        failed=0,
        interrupted=False,
        accuracy=Accuracy(stamp="kernel", processes=1, events=9, reads=9),
    )


def record(number: int) -> RequestRecord:
    return RequestRecord(
        rid=f"r{number}",
        prompt_id=f"p{number}",
        written_ns=0,
        first_token_ns=500_000_000,
        last_token_ns=1_500_000_000,
        end_ns=1_500_000_000,
        prompt_tokens=7,
        output_tokens=9,
        chunk_ns=[500_000_000, 1_000_000_000, 1_500_000_000],
        chunk_tokens=[1, 4, 4],
        tokens_in_first_chunk=1,
        spec_verify_ct=2,
        spec_accepted=6,
        spec_histogram=[0, 0, 0, 2],
    )


def sealed(number: int, status: str = "ok", *, speculative: bool = True) -> SealedTrial:
    return SealedTrial(
        trial=trial(number),
        status="ok" if status == "ok" else "failed",
        started_at=f"2026-01-01T00:00:{number % 60:02d}Z",
        ended_at="2026-01-01T00:01:00Z",
        report=report(),
        row={"tok_s": 10.0},
        row_version=1,
        server={"fingerprint": "f0", "speculative": speculative},
    )


def write_requests(folder: Path, count: int) -> None:
    lines = [msgspec.json.encode(record(number)) for number in range(count)]
    (folder / "requests.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def measure(writer: Writer, number: int, status: str = "ok") -> None:
    write_requests(writer.draft(f"t{number:03d}"), 3)
    writer.seal(sealed(number, status))
