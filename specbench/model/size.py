"""How many requests a trial asks: a number, or by the load that it has to keep in flight."""

from typing import Annotated

import msgspec
from msgspec import Meta

from specbench.model.load import FEWEST_A_SLOT, Closed, Count, Open, Ramp, Replay, Shape

RATE_S = 30.0
"""An open loop asks for this long by default."""


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests by need: `per_slot` for each slot of the concurrency, within both bounds.

    An open loop without a bound of requests in flight has no slots; it asks for half a minute.
    """

    per_slot: Count = FEWEST_A_SLOT
    at_least: Count = 32
    at_most: Count | None = None

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError(f"at_most {self.at_most} is below at_least {self.at_least}")

    def requests(self, shape: Shape) -> int:
        """Count the requests of a load."""
        wanted = max(self.at_least, self._wanted(shape))
        return wanted if self.at_most is None else min(wanted, self.at_most)

    def _wanted(self, shape: Shape) -> int:
        slots = slots_of(shape)
        if slots is not None:
            return self.per_slot * slots
        return round(RATE_S * shape.rate) if isinstance(shape, Open) else 0


Requests = Annotated[
    Count | Size | None,
    Meta(description="Measured requests: a number, or by need; by default by need, 8 a slot."),
]


def slots_of(shape: Shape) -> int | None:
    """Return the most requests in flight; None where nothing bounds them."""
    match shape:
        case Closed():
            return shape.concurrency
        case Open():
            return shape.max_in_flight
        case Ramp() | Replay():
            return None
