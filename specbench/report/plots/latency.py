"""Plots of latency: the whole distribution, not only two percentiles."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from specbench.analysis import metrics
from specbench.model.columns import Latency
from specbench.report import cells, theme
from specbench.report.inputs import Evidence, Source, evidence_of
from specbench.report.plots.series import Where, caption_of, chosen

LABELS: dict[Latency, str] = {
    "ttft_ms": "time to first token (ms)",
    "tpot_ms": "time per output token (ms)",
    "e2e_ms": "time to the last token (ms)",
}
MAX_LINES = 12
MAX_POINTS = 400


@theme.themed
def latency(
    source: Source, what: Latency = "ttft_ms", axes: Axes | None = None, where: Where = None
) -> Axes:
    """Plot the empirical distribution of a latency over requests, a line a cell.

    Shows the cells of the highest measured load when there are more than twelve.
    """
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    trials = chosen(evidence.trials, where)
    good = cells.usable(trials)
    names = ["algorithm", *cells.varying(trials)]
    values = _carried(evidence, what)
    by_cell = dict(iter(values.groupby(evidence.requests["cell_id"].astype(str))))
    shown = _shown(good)
    colours: dict[str, int] = {}
    for number, row in enumerate(shown):
        found = np.sort(by_cell.get(str(row["cell_id"]), pd.Series(dtype=float)).dropna())
        if not len(found):
            continue
        share = np.arange(1, len(found) + 1) / len(found)
        keep = np.unique(np.linspace(0, len(found) - 1, MAX_POINTS).astype(int))
        levels = cells.levels_of(row, names)
        server = cells.server_label(levels, [n for n in names if n not in cells.REQUEST_SIDE])
        axes.plot(
            found[keep], share[keep], label=cells.cell_label(levels, names), lw=1.4,
            ls=theme.DASHES[number % 5],
            color=theme.current().series[colours.setdefault(server, len(colours)) % 8],
        )  # fmt: skip
    _spread_axis(axes)
    axes.set_xlabel(LABELS[what])
    axes.set_ylabel("share of requests not above")
    axes.set_ylim(0, 1.02)
    return theme.finish(axes, given, caption_of(good, points=_words(good, values, shown)))


def latencies_words(evidence: Evidence) -> str:
    """Say what the panels of the latency plot show."""
    values = _carried(evidence, "ttft_ms")
    return f"{int(values.notna().sum()):,} measured requests that ended; cells of the highest load"


def _words(good: pd.DataFrame, values: pd.Series, shown: list[dict[Hashable, Any]]) -> str:
    cut = len(shown) < good["cell_id"].nunique()
    among = f"; {len(shown)} cells, of the highest load" if cut else ""
    return f"{int(values.notna().sum()):,} measured requests that ended{among}"


def _spread_axis(axes: Axes) -> None:
    """Use a logarithmic axis only where values spread over more than a decade."""
    values = [float(v) for line in axes.lines for v in np.asarray(line.get_xdata()) if v > 0]
    if values and max(values) / min(values) > 10:
        axes.set_xscale("log")
        theme.plain_numbers(axes.xaxis)
    else:
        axes.set_xlim(left=0)


def _shown(good: pd.DataFrame) -> list[dict[Hashable, Any]]:
    each = good.drop_duplicates("cell_id")
    if len(each) > MAX_LINES and "concurrency" in each.columns:
        each = each[each["concurrency"] == each["concurrency"].max()]
    rows = each.to_dict("records")
    order = cells.in_order(
        [{str(k): v for k, v in row.items()} for row in rows], cells.factors_of(good)
    )
    return [rows[position] for position in order[:MAX_LINES]]


def _carried(evidence: Evidence, what: Latency) -> pd.Series:
    """Give a latency of each request, but for trials that withhold it."""
    values, trials = latency_ms(evidence.requests, what), evidence.trials
    if "in_doubt" not in trials.columns:
        return values
    withheld = trials[trials["in_doubt"].notna() & trials[f"{what}_p50"].isna()]
    return values.mask(evidence.requests["trial_id"].isin(withheld["trial_id"]))


def latency_ms(requests: pd.DataFrame, what: Latency) -> pd.Series:
    """Give one latency of each measured request that ended well, NaN for the others."""
    ended = (requests["phase"] == "measured") & (requests["status"] == "ok")
    return pd.Series(metrics.latency_ms(requests, what), index=requests.index).where(ended)
