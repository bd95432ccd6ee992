"""How often `compare` is right: simulated recordings of known truth, many laws of noise.

    python benchmarks/stats_compare.py [--runs 1000] [--only NAME ...] [--docs]

Prints one table a question; with `--docs` it writes them into docs/explanation/comparison.md,
between `<!-- table: NAME -->` and `<!-- end -->`. Exit status 1 where a figure misses its bar by
more than two standard errors of the simulation.
"""

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.laws import cases, figures  # noqa: E402 - found through the line above

PAGE = ROOT / "docs" / "explanation" / "comparison.md"
Measure = Callable[[cases.Case, int, int], figures.Figures]

TABLES: dict[str, tuple[Sequence[cases.Case], Measure]] = {
    "equal": (cases.ISSUE, figures.equal),
    "fresh": (cases.FRESH, figures.equal),
    "failures": (cases.FAULTS, figures.faulty),
    "power": (cases.POWER, figures.found_effects),
    "pooled": (cases.POOLED, figures.pooled),
    "crossings": (cases.CROSSINGS, figures.crossings),
    "advice": (cases.ADVICE, figures.advice),
    "best": (cases.BEST, figures.best),
}
SEED = 20261130


def table(name: str, runs: int) -> tuple[str, list[str]]:
    """Run one table; gives its Markdown and what misses a bar."""
    rows, measure = TABLES[name]
    lines: list[str] = []
    missed: list[str] = []
    for number, case in enumerate(rows):
        began = time.monotonic()
        found = measure(case, runs, SEED + 1000 * number)
        if not lines:
            lines += [
                f"| {runs} runs a row, % | {' | '.join(found)} |",
                "|---" * (len(found) + 1) + "|",
            ]
        shown = ["-" if math.isnan(value) else f"{value:.1f}" for value in found.values()]
        wrong = figures.misses(found, case, 2 * 100 * math.sqrt(0.05 * 0.95 / runs))
        missed += [f"{name}: {case.name}: {what}" for what in wrong]
        mark = " **(misses)**" if wrong else ""
        lines.append(f"| {case.name}{mark} | {' | '.join(shown)} |")
        print(f"{case.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return "\n".join(lines), missed


def write(name: str, text: str) -> None:
    """Put a table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"{PAGE.name} has no place for the table {name!r}")
    PAGE.write_text(pattern.sub(lambda m: f"{m[1]}{text}\n{m[2]}", page), encoding="utf-8")


def main() -> int:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    missed: list[str] = []
    for name in asked.only:
        text, wrong = table(name, asked.runs)
        missed += wrong
        print(f"\n## {name}\n\n{text}\n", flush=True)
        if asked.docs:
            write(name, text)
    print("\n".join(missed) or "every figure is inside its bar")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
