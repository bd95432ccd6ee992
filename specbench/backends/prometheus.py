"""Numbers out of Prometheus text."""

import re


def total(text: str, name: str) -> float | None:
    """Sum a metric over its labels; None where it is not exported."""
    pattern = rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)"
    try:
        found = [float(value) for value in re.findall(pattern, text, re.MULTILINE)]
    except ValueError:
        return None
    return sum(found) if found else None
