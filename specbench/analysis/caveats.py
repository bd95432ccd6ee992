"""What a reader of a whole comparison must know beside its verdicts."""

from collections.abc import Iterator, Sequence

import pandas as pd

from specbench.analysis.arms import Matching
from specbench.analysis.cells import OFF, Sides
from specbench.analysis.comparison import CellComparison
from specbench.analysis.gate import lossless_gate
from specbench.analysis.judge import Verdicts


def caveats(
    matching: Matching, sides: Sequence[Sides], verdicts: Sequence[Verdicts],
    cells: Sequence[CellComparison], tables: Sequence[pd.DataFrame],
) -> tuple[str, ...]:  # fmt: skip
    """List the caveats, each once."""
    return (
        *_attribution(matching),
        *_launches(sides, verdicts, cells),
        *_lossless(tables),
        *(
            [f"verdicts are corrected for {len(cells)} matched cells (largest of all errors)"]
            if len(cells) > 1
            else []
        ),
    )


def _attribution(matching: Matching) -> Iterator[str]:
    if len(matching.declared) > 1:
        yield (
            f"{len(matching.declared)} declared factors differ ({', '.join(matching.declared)}):"
            " no attribution to one of them; `specbench isolate` can find which"
        )


def _launches(
    sides: Sequence[Sides], verdicts: Sequence[Verdicts], cells: Sequence[CellComparison]
) -> Iterator[str]:
    if any(min(cell.launches) == 1 for cell in cells):
        yield (
            "an arm was launched once: a slow launch cannot be told from a slow arm, so about 19 %"
            " is the least that can be called"
        )
    if any(one.cell.noise.same for one in sides):
        yield "where one interval is given, this workload cannot be told from such workloads"
    off = dict.fromkeys(
        f"{a} / {b}"
        for one, verdict in zip(sides, verdicts, strict=True)
        for (a, b), chance in zip(one.cell.paired.blocks, verdict.answered.group.off, strict=False)
        if chance > OFF
    )
    if off:
        yield f"outlying launches, one of each pair was probably slow: {', '.join(off)}"
    if any(one.cell.order is None for one in sides):
        yield "the order of launches is not known: a drift of the machine cannot be ruled out"
    left = sum(sum(one.cell.paired.left) for one in sides)
    if left:
        yield f"{left} trials have no partner of the other arm in their round and are left out"


def _lossless(tables: Sequence[pd.DataFrame]) -> Iterator[str]:
    gates = [lossless_gate(table) for table in tables]
    if "violated" in gates:
        yield "an arm is not lossless: its speed is shown and not ranked"
    if {"untested", "inconclusive"} & set(gates):
        yield "losslessness of an arm is not established; `specbench verify` tests it"
