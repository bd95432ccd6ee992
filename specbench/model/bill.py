"""The bill: what a plan costs in hours, GPU-hours and money, and what tells so."""

from typing import Literal

import msgspec

Source = Literal["recordings", "said", "hardware"]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An expected amount between a low and a high one; units are those of its owner."""

    low: float
    expected: float
    high: float

    @classmethod
    def exactly(cls, amount: float) -> "Span":
        """Give an amount without a margin."""
        return cls(low=amount, expected=amount, high=amount)

    def __add__(self, other: "Span") -> "Span":
        return Span(
            low=self.low + other.low,
            expected=self.expected + other.expected,
            high=self.high + other.high,
        )

    def times(self, factor: float) -> "Span":
        """Multiply all three."""
        return Span(low=self.low * factor, expected=self.expected * factor, high=self.high * factor)


NOTHING = Span(low=0.0, expected=0.0, high=0.0)


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says where no recording tells: minutes of a launch, tok/s of one stream."""

    launch_minutes: float | None = None
    tok_s: float | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its config.json tells: bytes of all weights, of those that one token reads, of KV.

    `weight_bytes` and `active_bytes` are sums over all GPUs; `kv_bytes` is of one token.
    """

    weight_bytes: float
    active_bytes: float
    kv_bytes: float


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its maker states it: bytes of memory, bytes a second."""

    memory: float
    bandwidth: float


class BillPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the bill: its hours summed over hosts, how many there are, and what tells."""

    what: str
    hours: Span
    count: int
    sources: tuple[Source, ...]


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes the bill smaller: an option of `plan` and `run`, or an `exclude`."""

    line: str
    exclude: str
    hours_left: float
    drops: str


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan costs. `hours` is wall time, hosts side by side.

    `gpu_hours` counts every GPU of a host while the host is in use; `usd` is None where a host has
    no price. `parts` are in descending order. `unknown` says what nothing tells; then there are no
    hours.
    """

    hours: Span | None = None
    gpu_hours: Span | None = None
    usd: Span | None = None
    parts: tuple[BillPart, ...] = ()
    savings: tuple[Saving, ...] = ()
    unknown: tuple[str, ...] = ()
