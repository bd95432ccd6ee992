"""Numbers as people read them: three significant digits, an interval, never a bare NaN."""

import math
from typing import Any

ABSENT = "–"  # noqa: RUF001 - an en dash stands for what was not measured


def show(value: Any, digits: int = 3) -> str:
    """Write a measurement with `digits` significant digits and thousands separated."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "\N{INFINITY}" if value > 0 else "-\N{INFINITY}"
    if value == 0 or isinstance(value, int):
        return f"{value:,}"
    if abs(value) < 1e-4:
        return f"{value:.1e}"
    rounded = abs(float(f"{value:.{digits - 1}e}"))  # 0.9999 is shown as 1.00, not as 1.000
    places = max(0, digits - 1 - math.floor(math.log10(rounded)))
    return f"{value:,.{min(places, 6)}f}"


def times(ratio: float | None) -> str:
    """Write a ratio, with the sign of multiplication."""
    return ABSENT if ratio is None or math.isnan(ratio) else f"{show(ratio)}×"  # noqa: RUF001


def percent(share: float | None) -> str:
    """Write a share of one as a percentage."""
    return ABSENT if share is None or math.isnan(share) else f"{show(share * 100)} %"


def between(low: float, high: float) -> str:
    """Write an interval."""
    return f"[{show(low)}, {show(high)}]"


def seconds(value: float | None) -> str:
    """Write a duration in the unit that fits."""
    if value is None or math.isnan(value):
        return ABSENT
    if value < 90:
        return f"{show(value)} s"
    return f"{show(value / 60)} min" if value < 5400 else f"{show(value / 3600)} h"
