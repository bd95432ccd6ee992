"""Plots of the machine: how servers loaded, and what the GPUs did."""

from matplotlib.axes import Axes

from specbench.report import cells, theme
from specbench.report.inputs import Evidence, Source, evidence_of

PHASES = ("starting", "weights", "kv_cache", "autotune", "graphs", "draft", "binding", "warmup",
          "checking")  # fmt: skip
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo", "**")


@theme.themed
def load_phases(source: Source, axes: Axes | None = None) -> Axes:
    """Plot the time that each launch spent in each phase of loading, in seconds."""
    evidence = evidence_of(source)
    blocks = {
        block: facts.phase_times for block, facts in evidence.blocks.items() if facts.phase_times
    }
    given, axes = axes, axes or theme.new_axes(6.6, 1.2 + 0.26 * max(2, min(len(blocks), 30)))
    names = list(blocks)[:30]
    told = _servers(evidence)
    present = [phase for phase in PHASES if any(phase in times for times in blocks.values())]
    left = dict.fromkeys(names, 0.0)
    for number, phase in enumerate(present):
        widths = [float(blocks[name].get(phase, 0.0)) for name in names]
        axes.barh(
            names, widths, 0.7, [left[name] for name in names], label=phase,
            color=theme.current().series[number % 8], hatch=HATCHES[number % len(HATCHES)],
            ec=theme.current().paper, lw=0,
        )  # fmt: skip
        left = {name: left[name] + width for name, width in zip(names, widths, strict=True)}
    axes.set_yticks(range(len(names)), [told.get(name, name[:8]) for name in names])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds since the launch")
    cut = f"; the first 30 of {len(blocks)}" if len(blocks) > len(names) else ""
    return theme.finish(axes, given, f"n = {len(names)} launches{cut}.")


def _servers(evidence: Evidence) -> dict[str, str]:
    """Name each launch by the server that it started, and by its own identifier."""
    names = cells.server_factors(evidence.trials)
    return {
        str(row["block_id"]): f"{cells.server_label(cells.levels_of(row, factors), names)}"
        f"  {str(row['block_id'])[:8]}"
        for factors in [list(dict.fromkeys(["algorithm", *names]))]
        for row in evidence.trials.drop_duplicates("block_id").to_dict("records")
    }


@theme.themed
def gpu(source: Source, block_id: str | None = None, axes: Axes | None = None) -> Axes:
    """Plot power (watts, left) and temperature (degrees Celsius, right) over one launch.

    `block_id` defaults to the first launch that has samples; one line a GPU.
    """
    evidence = evidence_of(source)
    given, axes = axes, axes or theme.new_axes()
    block_id = block_id or next(iter(evidence.gpu), None)
    axes.set_xlabel("seconds since the first sample")
    axes.set_ylabel("power (W), solid")
    if block_id is None or block_id not in evidence.gpu:
        return theme.finish(axes, given, "GPU samples were not recorded.")
    samples = evidence.gpu[block_id]
    right = axes.twinx()
    right.grid(visible=False)
    right.set_ylabel("temperature (°C), dashed")
    start = samples["unix_s"].min()
    for number, (name, rows) in enumerate(samples.groupby("gpu")):
        colour = theme.current().series[(number + 1) % 8]
        at = rows["unix_s"] - start
        axes.plot(at, rows["power_w"], color=colour, label=f"GPU {name}")
        right.plot(at, rows["temp_c"], color=colour, ls=(0, (5, 2)))
    return theme.finish(axes, given, f"block {block_id}; n = {len(samples):,} samples.")
