"""One stage of the battery, with the way to run it again on fresh requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specbench.verify.session import Session
from specbench.verify.statistics.evidence import Evidence

Run = Callable[[], Evidence | None]


@dataclass(frozen=True, slots=True)
class Stage:
    """`run` gives evidence, or None where the stage does not apply.

    `again` does the same on fresh requests, `more` adds tokens to the evidence where that can be
    done; `cost` is the most that `run` generates, in tokens; `top_k` says that its requests
    have one.
    """

    name: str
    run: Run
    again: Run
    cost: int = 0
    more: Callable[[Evidence], Evidence] | None = None
    top_k: bool = False


def plain_stage(
    session: Session, name: str, run: Callable[[Session], Evidence | None], cost: int
) -> Stage:
    """Return a stage that is simply run again where fresh requests are asked for."""
    return Stage(name, lambda: run(session), lambda: run(session), cost)
