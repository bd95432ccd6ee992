"""What the GPUs of a host did while something was measured."""

from collections.abc import Iterable

import msgspec

GPU_COLUMNS = (
    "unix_s", "gpu", "util_pct", "mem_used_mib", "power_w", "temp_c", "sm_mhz", "throttle",
)  # fmt: skip
"""Columns of blocks/<block_id>/gpu.csv; an empty field was not reported."""

THERMAL_BITS = 0x08 | 0x20 | 0x40 | 0x80
"""NVML clock event reasons that slow a hot or power-braked GPU: HW slowdown, SW thermal, HW
thermal, HW power brake (nvml.h, nvmlClocksEventReason*)."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU at one moment; `throttle` is the mask of NVML's clock event reasons."""

    unix_s: float
    gpu: str
    util_pct: float | None = None
    mem_used_mib: float | None = None
    power_w: float | None = None
    temp_c: float | None = None
    sm_mhz: float | None = None
    throttle: int | None = None


class GpuSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a span: mean power of all GPUs together, highest temperature, throttling.

    None stands for what no sample reported.
    """

    n: int
    power_w: float | None = None
    temp_c_max: float | None = None
    throttled: bool | None = None


def summarise_gpus(samples: Iterable[GpuSample]) -> GpuSummary:
    """Summarise samples: power is averaged over time for each GPU, then added up."""
    powers: dict[str, list[float]] = {}
    temperatures: list[float] = []
    reasons: list[int] = []
    count = 0
    for sample in samples:
        count += 1
        if sample.power_w is not None:
            powers.setdefault(sample.gpu, []).append(sample.power_w)
        if sample.temp_c is not None:
            temperatures.append(sample.temp_c)
        if sample.throttle is not None:
            reasons.append(sample.throttle)
    means = [sum(values) / len(values) for values in powers.values()]
    return GpuSummary(
        n=count,
        power_w=sum(means) if means else None,
        temp_c_max=max(temperatures, default=None),
        throttled=any(mask & THERMAL_BITS for mask in reasons) if reasons else None,
    )
