"""Named ways to break the engine: each exchanges one seam of the clean algorithm."""

import difflib
from collections.abc import Iterable

from specbench.engine.faults.table import FAULTS, Fault
from specbench.engine.seams import Seams

__all__ = ["FAULTS", "Fault", "break_seams", "list_faults"]


def list_faults() -> tuple[Fault, ...]:
    """Return every fault of the algorithm, in the order of their areas."""
    return tuple(FAULTS.values())


def break_seams(seams: Seams, names: Iterable[str]) -> Seams:
    """Return the seams with the named faults in them, the first named innermost.

    Raises ValueError for an unknown name, with the nearest known one.
    """
    for name in names:
        fault = FAULTS.get(name)
        if fault is None:
            near = difflib.get_close_matches(name, FAULTS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown fault {name!r}{hint}")
        seams = fault.install(seams)
    return seams
