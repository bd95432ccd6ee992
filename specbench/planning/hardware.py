"""A model of the hardware: how long a launch and a token take, where nobody measured them."""

from specbench.model.bill import Gpu, ModelFacts, Span

GPUS: dict[str, Gpu] = {
    "b300": Gpu(memory=288e9, bandwidth=8.0e12),
    "b200": Gpu(memory=192e9, bandwidth=8.0e12),
    "h200": Gpu(memory=141e9, bandwidth=4.8e12),
    "h100": Gpu(memory=80e9, bandwidth=3.35e12),
    "a100": Gpu(memory=80e9, bandwidth=2.04e12),
    "l40s": Gpu(memory=48e9, bandwidth=0.864e12),
    "a6000": Gpu(memory=48e9, bandwidth=0.768e12),
    "rtx4090": Gpu(memory=24e9, bandwidth=1.01e12),
    "rtx3090": Gpu(memory=24e9, bandwidth=0.936e12),
}
"""By the name that `gpu` in hosts.yaml gives; memory and bandwidth as their makers state them."""

EFFICIENCY = Span(low=0.15, expected=0.4, high=0.8)
"""The share of the memory's bandwidth that decoding one stream reaches."""

READ_BYTES_S = Span(low=0.5e9, expected=2e9, high=8e9)
"""How fast weights come from the disk."""

START_S = Span(low=30.0, expected=90.0, high=600.0)
"""What a launch takes beside reading weights: imports, graphs, warm-up."""

MOST_DRAFTED = 3.0
"""Speculative decoding makes one stream at most about that much faster."""


def gpu_of(name: str | None) -> Gpu | None:
    """Return what is known of a GPU; None for an unknown name."""
    words = (name or "").lower().replace(" ", "").replace("-", "").replace("_", "")
    return next((gpu for known, gpu in GPUS.items() if known in words), None)


def launch_s(model: ModelFacts) -> Span:
    """Tell how many seconds pass until a server is ready."""
    weights = model.weight_bytes
    return Span(
        low=START_S.low + weights / READ_BYTES_S.high,
        expected=START_S.expected + weights / READ_BYTES_S.expected,
        high=START_S.high + weights / READ_BYTES_S.low,
    )


def token_s(model: ModelFacts, gpu: Gpu, shards: int) -> Span:
    """Tell the seconds of one token of one stream: every token reads the active weights."""
    best = model.active_bytes / (gpu.bandwidth * max(1, shards))
    return Span(
        low=best / EFFICIENCY.high / MOST_DRAFTED,
        expected=best / EFFICIENCY.expected,
        high=best / EFFICIENCY.low,
    )
