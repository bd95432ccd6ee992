"""Plots of the machine: how servers loaded, and what the GPUs did."""

from matplotlib.axes import Axes

from specbench.report import theme
from specbench.report.evidence import Source, evidence_of

PHASES = ("starting", "weights", "kv_cache", "autotune", "graphs", "draft", "binding", "warmup",
          "checking")  # fmt: skip
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo", "**")


@theme.themed
def load_phases(source: Source, axes: Axes | None = None) -> Axes:
    """Plot the time that each launch spent in each phase of loading, in seconds."""
    evidence = evidence_of(source)
    blocks = {
        block: facts.get("phase_times") or {}
        for block, facts in evidence.blocks.items()
        if facts.get("phase_times")
    }
    axes = axes or theme.new_axes(height=1.9 + 0.28 * min(len(blocks), 30))
    names = list(blocks)[:30]
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
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds since the launch")
    theme.legend(axes)
    cut = f"; the first 30 of {len(blocks)}" if len(blocks) > len(names) else ""
    theme.caption_axes(axes, f"n = {len(names)} launches{cut}.")
    return axes


@theme.themed
def gpu(source: Source, block_id: str | None = None, axes: Axes | None = None) -> Axes:
    """Plot power (watts, left) and temperature (degrees Celsius, right) over one launch.

    `block_id` defaults to the first launch that has samples; one line a GPU.
    """
    evidence = evidence_of(source)
    axes = axes or theme.new_axes()
    block_id = block_id or next(iter(evidence.gpu), None)
    axes.set_xlabel("seconds since the first sample")
    axes.set_ylabel("power (W), solid")
    if block_id is None or block_id not in evidence.gpu:
        theme.caption_axes(axes, "GPU samples were not recorded.")
        return axes
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
    theme.legend(axes)
    theme.caption_axes(axes, f"block {block_id}; n = {len(samples):,} samples.")
    return axes
