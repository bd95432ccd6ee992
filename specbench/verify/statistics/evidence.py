"""What one stage of the battery found, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from specbench.model.verdict import Witness


@dataclass(frozen=True, slots=True)
class Effect:
    """An estimate with its interval, in percent; `margin` None means: reported, not judged."""

    name: str
    value: float
    low: float
    high: float
    margin: float | None = None

    @property
    def inside(self) -> bool:
        """Whether the whole interval lies within the margin (true where none is set)."""
        return self.margin is None or (self.low > -self.margin and self.high < self.margin)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One claim's tests, effects and witnesses.

    `tests` maps a test's name to its p-value; `fresh` to the p-value of the same test on fresh
    requests, taken only where the first one was small. `log_e` is the largest log E of the
    e-process. `fails` describes a deterministic check that failed, `fails_again` whether it failed
    once more on fresh requests. `gap` says that a documented upstream behaviour explains all of
    it. `stage` is the column of the diagnosis table; `lacking` why the claim cannot hold. `seen`
    says what each test measured, in words ("witness" and "e-process" are keys of it as well).
    `shows` is a shell command whose counts show the effect again.
    `reached` is the most that the server said it ran at once (None: it does not say), `foreign`
    how many requests of others it ran meanwhile.
    """

    name: str
    stage: str
    method: str
    n_tokens: int
    concurrency: int
    temperature: float | None = None
    tests: dict[str, float] = field(default_factory=dict)
    fresh: dict[str, float] = field(default_factory=dict)
    log_e: float | None = None
    fresh_log_e: float | None = None
    effects: tuple[Effect, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    profile: dict[int, float] = field(default_factory=dict)
    lacking: str = ""
    fails: str = ""
    fails_again: bool = False
    gap: str = ""
    note: str = ""
    seen: dict[str, str] = field(default_factory=dict)
    shows: str = ""
    reached: int | None = None
    foreign: int = 0

    def effect(self, name: str) -> Effect | None:
        """Return the effect of that name, or None."""
        return next((e for e in self.effects if e.name == name), None)

    def with_fresh(self, other: Evidence) -> Evidence:
        """Return the same evidence with the tests of a second, fresh sample beside its own."""
        return replace(
            self,
            fresh=other.tests,
            fresh_log_e=other.log_e,
            fails_again=bool(other.fails),
            witnesses=self.witnesses or other.witnesses,
        )
