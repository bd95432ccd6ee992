"""What they wrote: kept replies of each arm beside the control's, the first difference marked."""

from collections.abc import Iterator
from typing import Any

from specbench.analysis.texts import first_difference, loops
from specbench.report import cells
from specbench.report.inputs import Evidence
from specbench.report.statements import Section, Statement, Table, count, listed

BEFORE, AFTER = 40, 160
"""Characters shown before the first difference and from there on."""

MARK = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
NOTHING = "(nothing)"


def section(evidence: Evidence) -> Section:
    """Show a few prompts of each arm side by side with the control; absent without kept texts."""
    rows = list(_rows(evidence))
    equal = sum(row[-1] == "none" for row in rows)
    table = Table(
        heads=("cell", "prompt", f"{evidence.control} wrote", "the arm wrote", "first difference"),
        rows=tuple(rows),
        caption=f"Replies of both arms to one prompt; {MARK} marks the first difference",
    )
    short = (
        f"Of {count(len(rows), 'kept reply', 'kept replies')} {equal} are the control's word for"
        " word; above temperature 0 replies are random draws and differ."
    )
    return Section(
        anchor="texts",
        title="What they wrote",
        short=short if rows else "",
        statements=tuple(_loops(evidence)) if rows else (),
        tables=(table,) if rows else (),
    )


def _rows(evidence: Evidence) -> Iterator[tuple[Any, ...]]:
    """Yield a row a kept prompt for one cell of each arm and temperature."""
    trials = cells.usable(evidence.trials)
    factors = cells.factors_of(trials)
    names = ["algorithm", *cells.varying(trials)]
    each = trials.drop_duplicates("cell_id").to_dict("records")
    levels = {str(row["cell_id"]): cells.levels_of(row, factors) for row in each}
    controls = {c: own for c, own in levels.items() if own["algorithm"] == evidence.control}
    seen = set()
    for cell, own in levels.items():
        group = (own["algorithm"], own.get("temperature"))
        match = [c for c, control in controls.items() if cells.matches_control(own, control)]
        if cell in controls or group in seen or not match:
            continue
        theirs, mine = (evidence.texts.get(one, {}) for one in (match[0], cell))
        for prompt in mine:
            if prompt in theirs:
                seen.add(group)
                label = cells.cell_label(own, dict.fromkeys(names))
                yield (label, prompt, *_beside(theirs[prompt], mine[prompt]))


def _beside(control: str, arm: str) -> tuple[str, str, str]:
    """Cut two texts around their first difference and mark it in both."""
    place = first_difference(control, arm)
    if place is None:
        shown = control[: BEFORE + AFTER] + ("..." if len(control) > BEFORE + AFTER else "")
        return shown or NOTHING, "the same", "none"
    return _marked(control, place), _marked(arm, place), f"character {place + 1:,}"


def _marked(text: str, place: int) -> str:
    if not text:
        return NOTHING
    start = max(0, place - BEFORE)
    before = ("..." if start else "") + text[start:place]
    after = text[place : place + AFTER] or "(ends here)"
    return f"{before}{MARK}{after}{'...' if len(text) > place + AFTER else ''}"


def _loops(evidence: Evidence) -> Iterator[Statement]:
    """Name the cells whose kept replies only repeat themselves at their end."""
    found = [cell for cell, told in evidence.texts.items() if any(map(loops, told.values()))]
    if found:
        names = ["algorithm", *cells.varying(evidence.trials)]
        rows = {row["cell_id"]: row for row in cells.cell_rows(evidence)}
        labels = [cells.cell_label(rows[c], dict.fromkeys(names)) for c in found if c in rows]
        yield Statement(
            kind="flag",
            text=f"Kept replies of {count(len(found), 'cell')} repeat themselves at their end"
            f" ({listed(labels, most=3)}): a loop is easy to draft, so its speed is no success.",
            rows=tuple(found),
        )
