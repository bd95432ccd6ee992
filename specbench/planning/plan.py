"""The plan of a run: blocks to launch, trials with the reason why each will run or not."""

from collections.abc import Mapping, Sequence

from specbench.errors import InputError
from specbench.model.bill import Assumptions, ModelFacts
from specbench.model.host import Host
from specbench.model.matrix import Cell, Matrix
from specbench.model.plan import History, Lost, Measured, Plan, TrialReason
from specbench.planning.bill import bill
from specbench.planning.design import Design
from specbench.planning.durations import Durations
from specbench.planning.expected import Expected, plan_s, timed_blocks, timed_reasons
from specbench.planning.hardware import gpu_of
from specbench.planning.memory import memory_notices
from specbench.planning.render import Renderer
from specbench.planning.requests import request_notices
from specbench.planning.resume import resume
from specbench.planning.schedule import Group, Setup, blocks, groups, hosts_of, shared_out

MOST_TRIALS = 500_000


def plan(
    matrix: Matrix,
    cells: Sequence[Cell],
    hosts: Mapping[str, Host],
    done: Mapping[str, Measured] | None = None,
    history: History | None = None,
    *,
    engines: Mapping[str, str] | None = None,
    host_files: Mapping[str, Mapping[str, str]] | None = None,
    version: str | None = None,
    prompts: Mapping[str, int] | None = None,
    lost: Sequence[Lost] = (),
    said: Assumptions | None = None,
    model: ModelFacts | None = None,
) -> Plan:
    """Plan the fewest launches that measure every valid cell as often as the matrix asks.

    `prompts` says how many each dataset holds. `said` and `model` tell durations where `history`
    has none.

    `done` is what the recording holds (by trial_id), `lost` what it held and cannot be used any
    more; `engines` names the engine on each host (its
    image, commit or version) and `host_files` the hashes of the files put on each (by target), so
    that a change of either makes trials stale; `version` is the server's, as given to `expand`.

    Raises:
        InputError: when the matrix names a host that hosts.yaml does not have, or asks for more
            than half a million trials.
    """
    names = hosts_of(matrix, hosts)
    _refuse_too_many(matrix, cells, len(names) if matrix.spread == "every" else 1)
    found = groups(matrix, cells, version)
    share = shared_out(matrix, found, names)
    setups = {
        name: Setup.of((engines or {}).get(name), (host_files or {}).get(name)) for name in names
    }
    planned = blocks(matrix, share, setups)
    kept, reasons = resume(planned, done or {}, lost)
    invalid = tuple(cell for cell in cells if cell.invalid is not None)
    reasons += [
        TrialReason(
            trial_id=cell.cell_id, state="invalid", reason=cell.invalid or "", cell_id=cell.cell_id
        )
        for cell in invalid
    ]
    expected = Expected.from_history(history or History())
    if history is not None:
        kept = timed_blocks(kept, expected)
        reasons = timed_reasons(reasons, kept, expected)
    gpus = {name: gpu_of(hosts[name].gpu) for name in names}
    durations = Durations(expected, said or Assumptions(), model, gpus)
    return Plan(
        bill=bill(kept, matrix, hosts, durations),
        blocks=tuple(kept),
        reasons=tuple(reasons),
        invalid=invalid,
        expected_s=plan_s(kept),
        notices=(
            *_notices(matrix, cells, share),
            *request_notices(matrix, cells, prompts or {}),
            *memory_notices(kept, model, gpus),
        ),
    )


def _refuse_too_many(matrix: Matrix, cells: Sequence[Cell], hosts: int) -> None:
    """Refuse a plan that nobody could wait for, before it fills the memory."""
    times = matrix.replicates.launches * matrix.replicates.trials * hosts
    if len(cells) * times > MOST_TRIALS:
        raise InputError(
            f"{len(cells):,} cells x {times:,} replicates are more than {MOST_TRIALS:,} trials",
            where=matrix.places.get("replicates"),
            hint="take levels or replicates out",
        )


def _notices(matrix: Matrix, cells: Sequence[Cell], share: Mapping[str, list[Group]]) -> list[str]:
    """Say what a reader of the plan should know and could not see."""
    notices: list[str] = []
    design = Design(matrix)
    added = sum(cell.origin == "control" for cell in cells)
    if added:
        notices.append(f"{added} cells of the control {matrix.control!r} were added for comparison")
    notices += [
        f"the factor {name!r} applies to no cell; it has no effect"
        for name in design.names
        if all(cell.levels[name] is None for cell in cells)
    ]
    lost = sum(cell.invalid is not None for cell in cells if cell.algorithm == matrix.control)
    if lost:
        notices.append(
            f"{lost} cells of the control {matrix.control!r} are invalid; arms lack their baseline"
        )
    renderer = Renderer(design, None)
    pin = renderer.backend.pin
    if pin is not None and renderer.pinned is not None:
        notices.append(
            f"{pin.flag} is pinned to {renderer.pinned} on every arm, because {pin.why}; "
            f"server.flags.{pin.flag} changes it, null leaves it alone"
        )
    idle = [name for name, found in share.items() if not found]
    if idle:
        notices.append(
            f"no work for {', '.join(idle)}: a comparison stays on one host, and there are fewer "
            "comparisons than hosts; spread: every measures all of it on each"
        )
    return notices
