"""What a search will cost from here: it is played for causes drawn from what is believed now."""

from typing import Literal

import msgspec
import numpy as np

from specbench.planning.causes import Configuration, Hypothesis
from specbench.planning.isolate import Search
from specbench.planning.search_terms import Answer

DRAWN = 32
"""So many causes are played; what the search leaves open is not among them."""

ROUGHLY = 8
"""So many are enough to tell what is left of a search."""

AFFORDED = 8e6
"""Fewer are played where many laws and configurations make every step dear."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a search will cost, without errors: mean and most over the causes played."""

    first: tuple[str, ...]
    if_it_fails: tuple[str, ...]
    if_it_passes: tuple[str, ...]
    mean_launches: float
    most_launches: int
    mean_minutes: float
    most_minutes: float


def forecast(search: Search, drawn: int = DRAWN) -> Forecast:
    """Tell what the search will cost from here, by playing it for causes spread over the belief."""
    first = search.next_probe()
    branches = [_first_of(search, first, verdict) for verdict in ("fails", "passes")]
    played = [_play(search, law) for law in _drawn(search, drawn)]
    launches = np.array([launches for launches, _ in played])
    minutes = np.array([minutes for _, minutes in played])
    return Forecast(
        first=() if isinstance(first, Answer) else tuple(sorted(first)),
        if_it_fails=branches[0],
        if_it_passes=branches[1],
        mean_launches=float(launches.mean()),
        most_launches=int(launches.max()),
        mean_minutes=float(minutes.mean()),
        most_minutes=float(minutes.max()),
    )


def _drawn(search: Search, drawn: int) -> list[Hypothesis]:
    """Go evenly through the belief, so that a likely cause has its share."""
    belief = search.belief[:-1]
    reached = np.cumsum(belief) / belief.sum()
    size = search.fails.size
    drawn = max(3, min(drawn, int(AFFORDED / size)))
    marks = (np.arange(drawn) + 0.5) / drawn
    return [search.hypotheses[i] for i in np.searchsorted(reached, marks)]


def _first_of(
    search: Search, first: Configuration | Answer, verdict: Literal["fails", "passes"]
) -> tuple[str, ...]:
    if isinstance(first, Answer):
        return ()
    following = search.update(first, verdict).next_probe()
    return following.causes if isinstance(following, Answer) else tuple(sorted(following))


def _play(search: Search, truth: Hypothesis) -> tuple[int, float]:
    """Count launches and minutes to the answer when `truth` holds and no verdict errs."""
    minutes = 0.0
    already = len(search.tried)
    while not isinstance(step := search.next_probe(), Answer):
        minutes += search.cost(step)
        search = search.update(step, "fails" if truth.fails(step) else "passes")
    return len(search.tried) - already, minutes
