"""How much more data a question needs: launches and prompts for a given effect."""

import math

from specbench.stats.effect import Effect


def launches_needed(effect: Effect, launches: int, target: float, limit: int = 200) -> int | None:
    """Count launches an arm until an effect of size `target` is found with the usual power.

    The error is taken to shrink with the square root of launches; None beyond `limit`, where
    more launches are no sensible advice.
    """
    have = effect.minimum_detectable()
    if not math.isfinite(have) or target <= 0:
        return None
    needed = math.ceil(launches * (have / target) ** 2)
    return needed if needed <= limit else None
