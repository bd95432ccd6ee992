"""Named ways to break the engine: each exchanges one seam of the clean algorithm."""

from collections.abc import Iterable

from specbench.engine.seams import Seams


def break_seams(seams: Seams, names: Iterable[str]) -> Seams:
    """Return the seams with the named faults in them."""
    for name in names:
        raise ValueError(name)
    return seams
