"""Which factors concern which algorithm, and what a matrix's expressions say of a cell."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from specbench.expressions.expression import Expression, parse
from specbench.expressions.template import compile_template
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS, Level, Matrix

Levels = dict[str, Level]
Key = tuple[Level, ...]
Rule = Callable[[Key], bool]
DRIVEN = LOAD_FACTORS | REQUEST_FACTORS


@dataclass(frozen=True)
class Design:
    """A matrix with everything compiled that every cell asks for."""

    matrix: Matrix

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All factors, in the order of the file."""
        return tuple(self.matrix.factors)

    @cached_property
    def launch_names(self) -> tuple[str, ...]:
        """The factors that need a restart."""
        return tuple(name for name in self.names if name not in DRIVEN)

    @cached_property
    def driven_names(self) -> tuple[str, ...]:
        """The load and request factors, which need none."""
        return tuple(name for name in self.names if name in DRIVEN)

    @cached_property
    def own_factors(self) -> dict[str, frozenset[str]]:
        """For each algorithm the factors that are its own: named in its templates or listed."""
        shared = DRIVEN | set(self.matrix.common) | {"algorithm"}
        for text in (*self.matrix.server.flags.values(), *self.matrix.server.env.values()):
            shared |= compile_template(text).names
        own: dict[str, frozenset[str]] = {}
        for name, algorithm in self.matrix.algorithms.items():
            named = set(algorithm.factors)
            texts = [*algorithm.flags.values(), *algorithm.env.values()]
            for flags in algorithm.versions.values():
                texts += flags.values()
            for text in texts:
                named |= compile_template(text).names
            own[name] = frozenset(named - shared)
        return own

    @cached_property
    def algorithm_factors(self) -> frozenset[str]:
        """Factors that are some algorithm's own, so that they collapse for the others."""
        return frozenset().union(*self.own_factors.values())

    def applies(self, factor: str, algorithm: str) -> bool:
        """Whether a factor means anything to an algorithm."""
        if factor.startswith("speculative_") and not self.matrix.algorithms[algorithm].speculative:
            return False
        return factor not in self.algorithm_factors or factor in self.own_factors[algorithm]

    def is_common(self, factor: str) -> bool:
        """Whether a launch factor is held equal between the arms of a comparison."""
        special = factor == "algorithm" or factor.startswith("speculative_")
        return not special and factor not in self.algorithm_factors

    @cached_property
    def when(self) -> tuple[tuple[str, Expression], ...]:
        """Conditions under which factors apply."""
        return tuple((name, parse(text)) for name, text in self.matrix.when.items())

    @cached_property
    def exclude(self) -> tuple[Rule, ...]:
        """Rules of which none may hold."""
        return tuple(_rule(parse(text), self.names) for text in self.matrix.exclude)

    @cached_property
    def keep(self) -> tuple[Rule, ...]:
        """Rules of which one must hold, if there are any."""
        return tuple(_rule(parse(text), self.names) for text in self.matrix.keep)

    def collapsed(self, levels: Levels) -> Levels:
        """Return levels in which every factor that does not apply is None; idempotent."""
        algorithm = str(levels["algorithm"])
        result = {
            name: levels[name] if self.applies(name, algorithm) else None for name in self.names
        }
        settled = not self.when
        while not settled:  # a factor that collapses may be what another condition asks for
            settled = True
            for name, condition in self.when:
                if result[name] is not None and not condition.holds(result):
                    result[name] = None
                    settled = False
        return result

    def wanted(self, key: Key) -> bool:
        """Whether include's expressions keep a cell (its levels in order) and exclude leaves it."""
        if self.keep and not any(rule(key) for rule in self.keep):
            return False
        return not any(rule(key) for rule in self.exclude)


def picker(places: list[int]) -> Callable[[Key], Key]:
    """Return a function that picks these places of a key, at the speed of C where it can."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda key: tuple([key[at] for at in places])


def _rule(expression: Expression, names: tuple[str, ...]) -> Rule:
    """Evaluate an expression once for each combination of the levels that it asks for."""
    asked = list(dict.fromkeys(name for name, _ in expression.names))
    pick = picker([names.index(name) for name in asked])
    known: dict[Key, bool] = {}

    def holds(key: Key) -> bool:
        part = pick(key)
        if part not in known:
            known[part] = expression.holds(dict(zip(asked, part, strict=True)))
        return known[part]

    return holds
