"""Laws by which factors at their bad level may break a server, and the launches that confirm each.

A configuration is the set of factors at their bad level. A law says which configurations fail: a
set of factors together, one set or another, a factor that a second one cures. What no law here
says is left to a catch-all that predicts nothing.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

Configuration = frozenset[str]
"""The restart factors at their bad level; all others are at their good level."""

Kind = Literal["single", "pair", "triple", "four", "all", "either", "unless", "always", "other"]

SIZES: Mapping[int, Kind] = {1: "single", 2: "pair", 3: "triple", 4: "four"}

MOST_FOR_FOUR = 12
MOST_FOR_RARE = 10
"""Up to so many factors sets of four, and laws of several sets or with a cure, have a name.

Beyond, there are more of them than launches could tell apart, and the catch-all stands for them.
"""


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """One possible law: it fails where one of the `sets` is wholly at its bad level.

    With `cure` (curing, undoing) it passes nevertheless where the curing factor is bad and the
    undoing one is not. "always" fails everywhere; "other" is the catch-all, without a law.
    """

    kind: Kind
    sets: tuple[Configuration, ...]
    cure: tuple[str, str] | None = None

    @property
    def causes(self) -> Configuration:
        """All factors that the law names."""
        return frozenset().union(*self.sets, self.cure or ())

    def fails(self, configuration: Configuration) -> bool:
        """Whether a configuration fails under this law; the catch-all has none."""
        if self.cure and self.cure[0] in configuration and self.cure[1] not in configuration:
            return False
        return any(one <= configuration for one in self.sets)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that the sentence of a law speaks of, and whether it must fail."""

    configuration: Configuration
    fails: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """The configurations that a server can run; only itself is equal to it.

    `needs` names, for a factor that exists only beside others (a tree's topk beside the tree),
    those others.
    """

    names: tuple[str, ...]
    can_launch: Callable[[Configuration], bool]
    needs: Mapping[str, Configuration]

    @property
    def bad(self) -> Configuration:
        """The bad server."""
        return frozenset(self.names)

    def only(self, factors: Iterable[str]) -> Configuration:
        """Give the good server with these factors bad, and what they cannot be without."""
        chosen = frozenset(factors)
        return chosen.union(*(self.needs[name] for name in chosen))

    def without(self, configuration: Configuration, factors: Iterable[str]) -> Configuration:
        """Give a configuration less these factors, and less what cannot be without them."""
        gone = frozenset(factors)
        return frozenset(
            name for name in configuration if name not in gone and not self.needs[name] & gone
        )


def space(
    names: Sequence[str],
    launchable: Iterable[Configuration],
    can_launch: Callable[[Configuration], bool],
) -> Space:
    """Find out which factors exist only beside others."""
    needs = {name: frozenset(names) for name in names}
    for configuration in launchable:
        for name in configuration:
            needs[name] &= configuration
    return Space(
        names=tuple(names),
        can_launch=can_launch,
        needs={name: others - {name} for name, others in needs.items()},
    )


@lru_cache(maxsize=1 << 14)
def claims(law: Hypothesis, where: Space) -> tuple[Claim, ...]:
    """List what must be launched before the law is said: every configuration of its sentence.

    Each set alone fails, and passes less any of its members; the bad server passes when one member
    of every set is good, and of several sets it fails still without one. Where more bad factors
    never cure, no other law agrees with all of that: a set that holds no named one lacks a member
    of each, so that it is in a configuration that passed.
    """
    match law.kind:
        case "other":
            return ()
        case "always":
            wanted = [(frozenset[str](), True)]
        case "unless":
            wanted = _of_a_cure(law, where)
        case _:
            wanted = _of_sets(law, where)
    return tuple(
        Claim(configuration=configuration, fails=fails)
        for configuration, fails in dict(wanted).items()
    )


def _of_sets(law: Hypothesis, where: Space) -> list[tuple[Configuration, bool]]:
    several = len(law.sets) > 1
    wanted = []
    for one in law.sets:
        alone = where.only(one)
        wanted.append((alone, True))
        if several:
            wanted.append((where.without(where.bad, one), True))
        if len(one) > 1 or not several:
            wanted += [(where.without(alone, [name]), False) for name in sorted(one)]
    lacking = itertools.product(*(sorted(one) for one in law.sets))
    return [*wanted, *((where.without(where.bad, one), False) for one in lacking)]


def _of_a_cure(law: Hypothesis, where: Space) -> list[tuple[Configuration, bool]]:
    (one,) = law.sets
    curing, undoing = law.cure or ("", "")
    return [
        (where.only(one), True),
        (where.only(one | {curing}), False),
        (where.only(one | {curing, undoing}), True),
        (where.without(where.bad, [undoing]), False),
        (where.without(where.bad, one), False),
        (frozenset(), False),
    ]


def hypotheses(where: Space) -> tuple[Hypothesis, ...]:
    """List the laws that can be told apart in principle, the catch-all last."""
    names = where.names
    sizes = [size for size in SIZES if size < 4 or len(names) <= MOST_FOR_FOUR]
    sets = [
        Hypothesis(kind=SIZES[size], sets=(one,)) for size in sizes for one in _sets(where, size)
    ]
    every = [Hypothesis(kind="all", sets=(where.bad,))] if len(names) > max(sizes) else []
    return (
        *sets,
        *every,
        *_several(where),
        *_cures(where),
        Hypothesis(kind="always", sets=(frozenset(),)),
        Hypothesis(kind="other", sets=()),
    )


def _sets(where: Space, size: int) -> list[Configuration]:
    """List sets of factors of which none is there anyway because another one needs it."""
    return [
        frozenset(one)
        for one in itertools.combinations(where.names, size)
        if not _redundant(where, one)
    ]


def _redundant(where: Space, factors: Iterable[str]) -> bool:
    needs = where.needs
    return any(a in needs[b] and b not in needs[a] for a, b in itertools.permutations(factors, 2))


def _several(where: Space) -> list[Hypothesis]:
    """List sets of which each is enough: A or B; for few factors a pair too, or three singles."""
    shapes: list[tuple[int, ...]] = [(1, 1)]
    if len(where.names) <= MOST_FOR_RARE:
        shapes += [(1, 2), (2, 2), (1, 1, 1)]
    return [
        Hypothesis(kind="either", sets=sets) for shape in shapes for sets in _apart(where, shape)
    ]


def _apart(where: Space, shape: tuple[int, ...]) -> list[tuple[Configuration, ...]]:
    """Choose disjoint sets of the sizes given, each choice once."""
    choices = itertools.product(*(_sets(where, size) for size in shape))
    once = {
        frozenset(sets): sets
        for sets in choices
        if len(frozenset().union(*sets)) == sum(shape)
        and not _redundant(where, frozenset().union(*sets))
    }
    return list(once.values())


def _cures(where: Space) -> list[Hypothesis]:
    """One factor, cured by a second one, unless a third one undoes the cure."""
    if len(where.names) > MOST_FOR_RARE:
        return []
    return [
        Hypothesis(kind="unless", sets=(frozenset([one]),), cure=(curing, undoing))
        for one, curing, undoing in itertools.permutations(where.names, 3)
        if not _redundant(where, (one, curing, undoing))
    ]


def priors(
    laws: Sequence[Hypothesis],
    weights: Mapping[str, float],
    share: Callable[[Hypothesis], float],
) -> NDArray[np.float64]:
    """Share belief out among kinds, and within one in proportion to its factors' weights.

    `share` is the prior of the whole family that a hypothesis belongs to.
    """
    families: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for i, law in enumerate(laws):
        families.setdefault((law.kind, tuple(len(one) for one in law.sets)), []).append(i)
    belief = np.zeros(len(laws))
    for members in families.values():
        raw = np.array([math.prod(weights[name] for name in laws[i].causes) for i in members])
        belief[members] = share(laws[members[0]]) * raw / raw.sum()
    total = float(belief.sum())
    return belief / total


def failing(
    laws: Sequence[Hypothesis], configurations: Sequence[Configuration], names: Sequence[str]
) -> NDArray[np.bool_]:
    """Tell for each configuration (row) whether it fails under each law (column)."""
    bit = {name: 1 << i for i, name in enumerate(names)}
    rows = _codes(configurations, bit)[:, None]
    most = max(len(law.sets) for law in laws)
    result = np.zeros((len(configurations), len(laws)), dtype=np.bool_)
    for position in range(most):
        having = [i for i, law in enumerate(laws) if len(law.sets) > position]
        code = _codes([laws[i].sets[position] for i in having], bit)
        result[:, having] |= (rows & code) == code
    cured = [i for i, law in enumerate(laws) if law.cure]
    if cured:
        pairs = [law.cure for law in laws if law.cure]
        curing = _codes([frozenset([a]) for a, _ in pairs], bit)
        undoing = _codes([frozenset([b]) for _, b in pairs], bit)
        result[:, cured] &= ~(((rows & curing) != 0) & ((rows & undoing) == 0))
    return result


def _codes(sets: Sequence[Configuration], bit: Mapping[str, int]) -> NDArray[np.int64]:
    """One bit a factor, so that set inclusion is arithmetic."""
    return np.array([sum(bit[name] for name in one) for one in sets], dtype=np.int64)
