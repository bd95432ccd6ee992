"""What the number of requests means for a trial, said before anything is started."""

from collections.abc import Iterator, Mapping, Sequence

from specbench.model.load import FEWEST_A_SLOT, Closed, whole_passes
from specbench.model.matrix import Cell, Matrix
from specbench.model.plan import Asked
from specbench.planning.expand import asked as asked_of


def request_notices(
    matrix: Matrix, cells: Sequence[Cell], prompts: Mapping[str, int]
) -> Iterator[str]:
    """Say where requests are too few for the concurrency, and where they repeat prompts.

    `prompts` says how many each dataset holds.
    """
    every = [asked_of(matrix, cell) for cell in cells if cell.invalid is None]
    numbers = dict.fromkeys(
        (one.workload.dataset, one.workload.requests)
        for one in every
        if isinstance(one.workload.requests, int)
    )
    for dataset, requests in numbers:
        held = prompts.get(dataset)
        if held is not None and requests > held:
            yield (
                f"{requests} requests are more than the {held} prompts of {dataset}: each trial"
                f" asks whole passes over them, {whole_passes(requests, held)} requests"
            )
    by_size: dict[int, set[int]] = {}
    for one in every:
        if isinstance(one.shape, Closed) and one.requests is not None:
            by_size.setdefault(one.requests, set()).add(one.shape.concurrency)
    for requests, slots in sorted(by_size.items()):
        yield from _few(requests, slots)
    yield from _unbounded(every)


def _unbounded(every: Sequence[Asked]) -> Iterator[str]:
    """Say where a trial may end before every slot had one request."""
    seconds = {one.workload.seconds for one in every if one.requests is None} - {None}
    if seconds:
        yield (
            f"trials end after {_listed(sorted(s for s in seconds if s is not None))} s, wherever"
            " they are in the prompts: arms of different speed then ask different numbers of them"
        )


def _few(requests: int, slots: set[int]) -> Iterator[str]:
    never = sorted(count for count in slots if requests < count)
    if never:
        yield (
            f"{requests} requests can never keep {_listed(never)} in flight: such a trial measures"
            f" another concurrency; ask {FEWEST_A_SLOT * max(never)}"
        )
    few = sorted(count for count in slots if count <= requests < FEWEST_A_SLOT * count)
    if few:
        yield (
            f"{requests} requests are fewer than {FEWEST_A_SLOT} for each slot at concurrency"
            f" {_listed(few)}: the tail decides the throughput there (few_requests); ask"
            f" {FEWEST_A_SLOT * max(few)}"
        )


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
