"""The cheapest probe that still fails, found on the running bad server without a restart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from specbench.model.matrix import Level
from specbench.planning.search_terms import ProbeVerdict


class FreeFactor(msgspec.Struct, frozen=True, kw_only=True):
    """A load or request factor; `levels` are what may be tried instead, the cheapest first."""

    name: str
    levels: tuple[Level, ...]


FREE_FACTORS: tuple[FreeFactor, ...] = (
    FreeFactor(name="requests", levels=(8, 32)),
    FreeFactor(name="max_tokens", levels=(32, 128)),
    FreeFactor(name="prompt_tokens", levels=(32, 256)),
    FreeFactor(name="turns", levels=(1,)),
    FreeFactor(name="stream", levels=(False,)),
    FreeFactor(name="temperature", levels=(0.0,)),
    FreeFactor(name="top_k", levels=(1,)),
    FreeFactor(name="top_p", levels=(1.0,)),
    FreeFactor(name="concurrency", levels=(1, 2)),
)
"""In the order of what they save; a probe that does not know a factor leaves it out."""


class ShrinkStep(msgspec.Struct, frozen=True, kw_only=True):
    """One probe on the running server: what was changed, to what, and what it said."""

    factor: str
    level: Level
    verdict: ProbeVerdict


@dataclass(frozen=True, kw_only=True)
class Shrink:
    """A reduction in progress. `settings` is the cheapest probe known to fail.

    Factors are tried one by one: a level under which the probe still fails is kept, one under
    which it passes is a fact about the cause (`needed`), one that cannot be decided is not used.
    """

    settings: Mapping[str, Level]
    pending: tuple[tuple[str, Level], ...]
    steps: tuple[ShrinkStep, ...] = ()

    def next_probe(self) -> Mapping[str, Level] | None:
        """Return the next settings to try, or None at the end."""
        if not self.pending:
            return None
        factor, level = self.pending[0]
        return {**self.settings, factor: level}

    def update(self, verdict: ProbeVerdict) -> "Shrink":
        """Return the reduction after the verdict on `next_probe()`."""
        factor, level = self.pending[0]
        steps = (*self.steps, ShrinkStep(factor=factor, level=level, verdict=verdict))
        if verdict != "fails":
            return replace(self, pending=self.pending[1:], steps=steps)
        kept = {**self.settings, factor: level}
        rest = tuple(entry for entry in self.pending[1:] if entry[0] != factor)
        return Shrink(settings=kept, pending=rest, steps=steps)

    @property
    def needed(self) -> tuple[ShrinkStep, ...]:
        """Changes under which the probe passed: the fault needs the level that was changed."""
        return tuple(step for step in self.steps if step.verdict == "passes")


def shrink(settings: Mapping[str, Level], factors: Sequence[FreeFactor] = FREE_FACTORS) -> Shrink:
    """Start from settings that fail; factors that they do not name are not touched."""
    pending = tuple(
        (factor.name, level)
        for factor in factors
        if factor.name in settings
        for level in factor.levels
        if _cheaper(level, settings[factor.name])
    )
    return Shrink(settings=dict(settings), pending=pending)


def _cheaper(level: Level, current: Level) -> bool:
    """Whether it is a smaller number; for switches and names, any other level."""
    numbers = (int, float)
    plain = not isinstance(level, bool) and not isinstance(current, bool)
    if plain and isinstance(level, numbers) and isinstance(current, numbers):
        return level < current or current < 0
    return level != current
