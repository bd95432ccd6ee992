"""Equal arms on the embedded engine: servers that differ in their random seed alone.

    python benchmarks/real_aa.py [--results FOLDER] [--recording RECORDING] [--docs]

Records `laws/real_aa.yaml` (about five minutes; on a machine that does nothing else), then takes
every two launches, and splits of them into arms of five, as a comparison of equal arms, and five
launches of a clock that is 5 % slower as one of arms that differ. `--recording` judges a recording
again; `--only` records a part. Exit status 1 where a figure misses its bar.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.laws.asked import DIRECTIONS, share  # noqa: E402 - found through the line above
from benchmarks.stats_compare import write  # noqa: E402
from specbench.analysis.compare import compare  # noqa: E402
from specbench.analysis.comparison import CellComparison, Comparison  # noqa: E402
from specbench.workflows.api import run  # noqa: E402
from specbench.workflows.compare import Tables, read_tables  # noqa: E402
from specbench.workflows.recording_open import open_recording  # noqa: E402

MATRIX = ROOT / "benchmarks" / "laws" / "real_aa.yaml"
SPLITS = 200
AN_ARM = 5
PLANTED = 1.05
NEEDED = 1.5
DIFFERENT = ("flag.random-seed", "flag.time-scale", "server.*time_scale")
Rounds = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Launches:
    """The recording, and its launches in the order of their start: equal ones and slower ones."""

    tables: Tables
    equal: list[str]
    slower: list[str]

    @classmethod
    def of(cls, tables: Tables) -> "Launches":
        """Sort out what was recorded."""
        good = tables.trials[tables.trials["status"] == "ok"].sort_values("started_at")
        clocks = good.drop_duplicates("block_id").set_index("block_id")["clock"]
        return cls(
            tables=tables,
            equal=[str(block) for block in clocks.index[clocks == 1.0]],
            slower=[str(block) for block in clocks.index[clocks == PLANTED]],
        )

    def asked(self, rounds: Rounds) -> Comparison:
        """Compare the second launches of these rounds with the first ones."""
        place = {
            block: (arm, number)
            for number, pair in enumerate(rounds)
            for arm, block in zip(("first", "second"), pair, strict=True)
        }
        trials = self.tables.trials
        trials = trials[trials["block_id"].isin(list(place))].reset_index(drop=True)
        found = [place[str(block)] for block in trials["block_id"]]
        trials["algorithm"], trials["launch"] = zip(*found, strict=True)
        return compare(
            trials.drop(columns=["seed_of_server", "clock"]),
            self.tables.requests[self.tables.requests["trial_id"].isin(trials["trial_id"])],
            self.tables.blocks, "first", "second", allow=DIFFERENT, details=False,
        )  # fmt: skip


def splits(launches: Sequence[str], random: np.random.Generator) -> Iterator[Rounds]:
    """Draw rounds of neighbours, each in a random order: as a plan that alternates arms."""
    size = min(AN_ARM, len(launches) // 2)
    for _ in range(SPLITS):
        start = int(random.integers(0, len(launches) - 2 * (len(launches) // 2) + 1))
        pairs = [tuple(launches[i : i + 2]) for i in range(start, len(launches) - 1, 2)]
        kept = sorted(random.permutation(len(pairs))[:size])
        turned = random.integers(2, size=size)
        yield [pairs[k][:: -1 if turn else 1] for k, turn in zip(kept, turned, strict=True)]


def planted(seen: Launches) -> Rounds:
    """Pair each slower launch with an equal one beside it, before it and after it in turn.

    Of each seed the equal launch comes first: the first ones of the run are paired with their own,
    the others with that of the next seed.
    """
    own = (len(seen.slower) + 1) // 2
    before = list(zip(seen.equal[:own], seen.slower[:own], strict=True))
    after = zip(seen.equal[own + 1 :], seen.slower[own:], strict=False)
    return [*before, *after]


def needed(seen: Launches, concurrency: int, size: int) -> float:
    """Half-width in per cent that the scatter of launches needs with `size` launches an arm."""
    trials = seen.tables.trials
    mine = trials["block_id"].isin(seen.equal) & (trials["concurrency"] == concurrency)
    logs = np.log(trials[mine].groupby("block_id")["tok_s_window"].mean().to_numpy(dtype=float))
    return 100 * 1.96 * float(logs.std(ddof=1)) * math.sqrt(2 / size)


def _half(cell: CellComparison) -> float:
    told = cell.such_workloads or cell.this_workload
    return 50 * math.log(told.high_alone / max(told.low_alone, 1e-9))


def _called(cell: CellComparison) -> bool:
    return bool({cell.verdict, cell.verdict_this_workload} & set(DIRECTIONS))


def _holds(cell: CellComparison) -> bool:
    told = cell.this_workload
    return told.low_alone <= 1 <= told.high_alone


def rows(seen: Launches) -> dict[int, dict[str, float]]:
    """Figures by concurrency."""
    random = np.random.default_rng(12)
    pairs = [seen.asked([pair]) for pair in itertools.combinations(seen.equal, 2)]
    arms = [seen.asked(rounds) for rounds in splits(seen.equal, random)]
    size = min(AN_ARM, len(seen.equal) // 2)
    slower = seen.asked(planted(seen)) if len(seen.slower) > 1 else None
    found = {}
    for concurrency in sorted({int(str(cell.levels["concurrency"])) for cell in pairs[0].cells}):
        two, five, one = (
            [
                c
                for answer in answers
                for c in answer.cells
                if c.levels["concurrency"] == concurrency
            ]
            for answers in (pairs, arms, [slower] if slower else [])
        )
        half = float(np.median([_half(cell) for cell in five]))
        wanted = needed(seen, concurrency, size)
        found[concurrency] = {
            "pairs called": share([_called(cell) for cell in two]),
            "arms called": share([_called(cell) for cell in five]),
            "withheld": share([bool(cell.doubts) for cell in five]),
            "covers": share([_holds(cell) for cell in [*two, *five]]),
            "covers, arms": share([_holds(cell) for cell in five]),
            "half-width": half,
            "of needed": half / wanted,
            "planted: ratio": one[0].this_workload.ratio if one else math.nan,
            "found": share([cell.verdict_this_workload == "slower" for cell in one]),
        }
    return found


BARS = {"pairs called": (0, 0), "arms called": (0, 5), "covers, arms": (90, 100),
        "of needed": (0, NEEDED), "found": (100, 100)}  # fmt: skip


def misses(figures: dict[str, float]) -> list[str]:
    """Name what is beyond its bar."""
    return [
        f"{name} {figures[name]:.2f} is not in {least:g} to {most:g}"
        for name, (least, most) in BARS.items()
        if not math.isnan(figures[name]) and not least <= figures[name] <= most
    ]


def table(seen: Launches, found: dict[int, dict[str, float]]) -> str:
    """Render the figures as Markdown."""
    names = list(next(iter(found.values())))
    what = f"{len(seen.equal)} equal launches, {len(seen.slower)} slower by 5 %; %"
    lines = [f"| {what} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for concurrency, figures in found.items():
        told = ["-" if math.isnan(value) else f"{value:.3g}" for value in figures.values()]
        mark = " **(misses)**" if misses(figures) else ""
        lines.append(f"| T=1, c={concurrency}{mark} | {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> int:
    """Record, judge, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results/real-aa"))
    parser.add_argument("--recording", type=Path)
    parser.add_argument("--only", help="an expression over factors: record a part")
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    recording = (
        open_recording(asked.recording)
        if asked.recording
        else run(MATRIX, results=asked.results, only=asked.only)
    )
    seen = Launches.of(read_tables(recording))
    if len(seen.equal) < 4:
        sys.exit(f"{len(seen.equal)} equal launches were measured, and 4 are the least")
    found = rows(seen)
    text = table(seen, found)
    late = sorted({flag for flags in seen.tables.trials["flags"] for flag in flags.split(",")})
    print(f"{recording.path}\nflags of the rows: {' '.join(late) or 'none'}\n\n{text}")
    missed = [f"c={c}: {what}" for c, figures in found.items() for what in misses(figures)]
    print("\n".join(missed) or "every figure is inside its bar")
    if asked.docs:
        write("real", text)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
