"""A comparison or a noise floor on the terminal, as CSV, Markdown or one JSON document."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.analysis.comparison import CellComparison, Comparison
from specbench.cli.show.compare_details import cell_lines, compared_lines, noise_lines
from specbench.cli.show.compare_text import Screen, levels_text, screen, text_of
from specbench.cli.show.consoles import say, say_json
from specbench.errors import InputError
from specbench.expressions.expression import parse
from specbench.report.comparison.answer import answer_of, in_reading_order, levels_of
from specbench.report.comparison.formats import csv_of, markdown_of
from specbench.report.statements import count
from specbench.workflows.compare import Compared, NoiseReport

MOST_OPEN = 8
"""Undecided cells of a gate that are named one by one."""

PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How an answer is shown: one of the formats, or text with what was asked beside it."""

    json: bool = False
    csv: bool = False
    markdown: bool = False
    details: bool = False
    why: str | None = None


def show(answer: Compared | NoiseReport, how: Shown) -> int:
    """Print an answer on standard output; return its exit status.

    Raises InputError where `why` names no cell.
    """
    for one in answer.damage:
        say(f"damaged: {one}", err=True)
    if how.json:
        say_json(answer, indent=1)
        return answer.exit_status
    if isinstance(answer, NoiseReport):
        _echo(noise_lines(answer))
    elif how.csv:
        say(csv_of(answer_of(answer.comparison)), end="")
    elif how.markdown:
        say(markdown_of(answer_of(answer.comparison)), end="")
    else:
        _echo(lines_of(answer, how, screen()))
    return answer.exit_status


def draw(answer: Compared | NoiseReport, path: Path) -> None:
    """Write the picture of a comparison; the end of its name says in which format.

    Raises InputError where it cannot: another ending, a folder that takes no file, a noise floor.
    """
    if isinstance(answer, NoiseReport):
        raise InputError("an arm against itself has no picture", hint="leave -o out")
    if path.suffix not in PICTURES:
        raise InputError(
            f"no picture format {path.suffix or path.name!r}", where="--output",
            hint=f"end the name with {', '.join(PICTURES)}",
        )  # fmt: skip
    from specbench.report import plots, theme

    with theme.using("light"):
        figure = theme.figure_of(plots.comparison(answer.comparison))
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise InputError(
                f"cannot write the picture: {error.strerror or error}", where=str(path)
            ) from error


def lines_of(answer: Compared, how: Shown, on: Screen) -> Iterator[str]:
    """Yield the text of a comparison: the answer, or all details, or the cells asked for."""
    c = answer.comparison
    if how.why is not None:
        for number, cell in cells_of(c, how.why):
            yield f"#{number} {c.b.name} over {c.a.name}"
            yield from cell_lines(cell)
        return
    if how.details:
        yield from compared_lines(answer)
        yield from gate_lines(answer)
        return
    yield from text_of(answer_of(c), on)
    yield from gate_lines(answer)


def gate_lines(answer: Compared) -> Iterator[str]:
    """Say what became of --fail-if; where it is open, in which cells, why, and what decides it."""
    if answer.fail_if is None:
        return
    told = {"yes": "met: this is a regression", "no": "not met", "unknown": "cannot be decided"}
    yield f"--fail-if {answer.fail_if!r}: {told[str(answer.failed)]}"
    shown = answer_of(answer.comparison)
    for one in answer.undecided[:MOST_OPEN]:
        needed = "more launches would not decide it"
        if one.launches is not None:
            needed = f"about {one.launches} launches an arm would"
        levels = levels_text(shown.rows[one.number - 1], shown.varying)
        yield f"  #{one.number} {levels}: {one.reason}; {needed}"
    if len(answer.undecided) > MOST_OPEN:
        more = count(len(answer.undecided) - MOST_OPEN, "more cell")
        yield f"  and {more} (--json has all)"
    counts = [one.launches for one in answer.undecided if one.launches is not None]
    if counts:
        yield (
            f"  {max(counts)} launches an arm would likely decide {len(counts)} of"
            f" {len(answer.undecided)}: replicates: {{launches: {max(counts)}}}"
        )


def cells_of(c: Comparison, asked: str) -> list[tuple[int, CellComparison]]:
    """Give the cells that `asked` names: the number of a row, or an expression over levels.

    Raises InputError where there is none.
    """
    numbered = list(enumerate(in_reading_order(c).cells, 1))
    text = asked.removeprefix("#")
    if text.isdigit():
        found = [one for one in numbered if one[0] == int(text)]
    else:
        holds: Callable[[dict[str, Any]], bool] = parse(asked).holds
        found = [one for one in numbered if holds({**levels_of(one[1]), **one[1].own_b})]
    if not found:
        raise InputError(
            f"no cell {asked!r} in this comparison",
            hint=f'give the number of a row, 1 to {len(c.cells)}, or levels: "temperature == 0"',
        )
    return found


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
