"""One server of a matrix on demand, outside a planned run: what `isolate` probes."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from specbench import config, planning
from specbench.analysis.summary import summarise
from specbench.errors import InputError
from specbench.model.host import Host
from specbench.model.load import Dataset, DriveReport
from specbench.model.matrix import Cell, Level, Matrix
from specbench.sglang.constraints import invalid_reason
from specbench.workflows.lab import Lab
from specbench.workflows.trial import drive_job, read_requests

if TYPE_CHECKING:
    from specbench.launchers import RunningService


def cell_at(matrix: Matrix, datasets: Mapping[str, Dataset], levels: Mapping[str, Level]) -> Cell:
    """Give the one cell of the design at `levels`; factors left out take their first level.

    Levels that the matrix does not list are allowed: isolation mixes those of two cells. Raises
    InputError when no server can run the cell.
    """
    factors = {
        name: (levels[name] if name in levels else values[0],)
        for name, values in matrix.factors.items()
    }
    single = msgspec.structs.replace(matrix, factors=factors, include=(), keep=(), exclude=())
    cells = planning.expand(
        single,
        datasets={name: dataset.sha256 for name, dataset in datasets.items()},
        version=None,
        invalid_reason=invalid_reason,
    )
    cell = next(cell for cell in cells if cell.origin != "control")
    if cell.invalid:
        raise InputError(f"no server can run this cell: {cell.invalid}", where=matrix.path)
    return cell


@contextmanager
def serving(
    matrix: Matrix, host: Host, cell: Cell, folder: Path, lab: Lab
) -> Iterator["RunningService"]:
    """Launch the cell's server and wait until it is ready; stop it on leaving.

    Raises LoadFailed with a diagnosis, HostError when the host cannot be used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec = planning.launch_spec(matrix, cell, None)
    with (
        closing(lab.launcher(host, None)) as launcher,
        launcher.running(spec, folder) as service,
    ):
        for _ in service.until_ready():
            pass
        yield service


def measure_once(
    matrix: Matrix,
    dataset: Dataset,
    cell: Cell,
    service: "RunningService",
    lab: Lab,
    *,
    api_key_env: str | None = None,
) -> dict[str, Any]:
    """Drive the cell's workload once; returns the summary columns of contract section 6."""
    speculative = planning.launch_spec(matrix, cell, None).speculative
    with TemporaryDirectory(prefix="specbench-") as folder:
        sink = Path(folder) / "requests.jsonl"
        prompts = config.shuffle_prompts(dataset.prompts, matrix.workload.seed)
        job = drive_job(
            matrix, cell, prompts, url=service.url, folder=Path(folder), salt=cell.cell_id,
            seed=matrix.workload.seed, api_key_env=api_key_env,
        )  # fmt: skip
        service.flush()
        with closing(lab.drive(job, sink)) as events:
            reports = [event for event in events if isinstance(event, DriveReport)]
        return summarise(read_requests(sink), reports[-1], speculative=speculative)
