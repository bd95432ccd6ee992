"""Service levels as people write them: `ttft <= 500 ms and tpot <= 30 ms`."""

import re

from specbench.errors import InputError
from specbench.model.load import ServiceLevels

_LEVEL = re.compile(r"(ttft|tpot|e2e)(?:_ms)?\s*<=\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s)?")
_SCALE = {"": 1.0, "ms": 1.0, "s": 1000.0}


def parse_levels(text: str, where: str = "--slo") -> ServiceLevels:
    """Read limits of ttft, tpot and e2e joined by `and`; without a unit they are milliseconds.

    Raises InputError for anything else, and for a latency that is limited twice.
    """
    limits: dict[str, float] = {}
    for part in text.split(" and "):
        match = _LEVEL.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"not a service level: {part.strip()!r:.60}",
                where=where,
                hint='for example "ttft <= 500 ms and tpot <= 30 ms"; also e2e',
            )
        name = f"{match[1]}_ms"
        if name in limits:
            raise InputError(f"{match[1]} is limited twice", where=where)
        limits[name] = float(match[2]) * _SCALE[match[3] or ""]
    return ServiceLevels(**limits)
