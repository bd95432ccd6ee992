"""What a host and its GPUs did while something was measured."""

from collections.abc import Iterable

import msgspec

GPU_COLUMNS = (
    "unix_s", "gpu", "util_pct", "mem_used_mib", "power_w", "temp_c", "sm_mhz", "throttle",
)  # fmt: skip
"""Columns of blocks/<block_id>/gpu.csv; an empty field was not reported."""

HOST_COLUMNS = ("unix_s", "load_1min", "cpu_busy_pct", "cpu_own_pct", "mem_available_mib")
"""Columns of blocks/<block_id>/host.csv; an empty field could not be seen."""

FOREIGN_PCT = 10.0
"""Share of a host's processors, in percent, that others may use before a trial is flagged."""

THERMAL_BITS = 0x08 | 0x20 | 0x40 | 0x80
"""NVML clock event reasons that slow a hot or power-braked GPU: HW slowdown, SW thermal, HW
thermal, HW power brake (nvml.h, nvmlClocksEventReason*)."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU: name, driver and memory as the driver reports them."""

    index: str
    name: str
    driver: str
    memory_mib: float | None


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds GPU memory."""

    pid: int
    name: str
    memory_mib: float | None


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


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """A host at one moment. The shares are of all its processors, since the sample before.

    `cpu_busy_pct` is what all processes used together. `cpu_own_pct` is what the server used, and
    specbench with the load that it drives from there; None where the server's processes are not
    known.
    """

    unix_s: float
    load_1min: float | None = None
    cpu_busy_pct: float | None = None
    cpu_own_pct: float | None = None
    mem_available_mib: float | None = None


class HostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of a span: highest load, mean shares of the processors, least free memory.

    None stands for what no sample reported. `foreign_cpu_pct` is what neither the server nor
    specbench used.
    """

    n: int
    load_1min: float | None = None
    cpu_pct: float | None = None
    foreign_cpu_pct: float | None = None
    mem_available_mib: float | None = None


def summarise_host(samples: Iterable[HostSample], *, driver_pct: float | None = 0.0) -> HostSummary:
    """Summarise samples of one host.

    `driver_pct` is the share of its processors that a driver used which the samples do not count as
    specbench's own; None where there was one and its share is not known.
    """
    chosen = list(samples)
    busy = [sample.cpu_busy_pct for sample in chosen if sample.cpu_busy_pct is not None]
    foreign = [
        sample.cpu_busy_pct - sample.cpu_own_pct
        for sample in chosen
        if sample.cpu_busy_pct is not None and sample.cpu_own_pct is not None
    ]
    others = sum(foreign) / len(foreign) if len(foreign) > 1 else None
    return HostSummary(
        n=len(chosen),
        load_1min=max((s.load_1min for s in chosen if s.load_1min is not None), default=None),
        cpu_pct=sum(busy) / len(busy) if busy else None,
        foreign_cpu_pct=None
        if others is None or driver_pct is None
        else max(0.0, others - driver_pct),
        mem_available_mib=min(
            (s.mem_available_mib for s in chosen if s.mem_available_mib is not None), default=None
        ),
    )
