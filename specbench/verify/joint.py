"""Parameters that act together, in requests that run side by side with other parameters.

A nucleus that is worth before the temperature scales, a penalty that is lost at temperature above
0, or parameters of a neighbour in the batch pass every test of one parameter alone. Everything is
judged on tokens whose proportions are known whatever the order of the filters: see `production`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.verify.options import HOT
from specbench.verify.session import Session
from specbench.verify.statistics import scores
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.penalised import Counting, penalised
from specbench.verify.statistics.production import combined, forbidden, shape_any
from specbench.verify.statistics.sampled import label
from specbench.verify.statistics.shaping import Filters, shape
from specbench.verify.statistics.tokens import Floats, ScoredTokens
from specbench.verify.wire import Ask

PENALTY = 2.0
# A token that lies further outside the filters, in nat after the temperature, is no edge effect.
_FORBIDDEN_NAT = 2.0
_FORBIDDEN_MASS = 0.08
# A p-value below which a way of counting does not explain what a server does under a penalty.
_REJECT = 1e-3


@dataclass(frozen=True, slots=True)
class Mix:
    """Sampling parameters that act together."""

    filters: Filters
    penalty: float = 0.0

    def __str__(self) -> str:
        """Name the parameters."""
        said = f" frequency_penalty={self.penalty:g}" if self.penalty else ""
        return label(self.filters) + said


@dataclass(frozen=True, slots=True)
class Found:
    """What one mix showed: p-values, each in words, and how many tokens its filters exclude."""

    tests: Mapping[str, float]
    seen: Mapping[str, str]
    excluded: int

    @property
    def least(self) -> float:
        """The smallest p-value; 1 where nothing could be tested, 0 where a token is excluded."""
        return 0.0 if self.excluded else min(self.tests.values(), default=1.0)


# Hot and cold stand side by side: a neighbour's parameters would show in both.
MIXES = (
    Mix(Filters(temperature=0.6, top_p=0.7)),
    Mix(Filters(temperature=1.8, top_p=0.5)),
    Mix(HOT),
    Mix(Filters(temperature=0.7), PENALTY),
)


def run_joint(session: Session) -> Evidence | None:
    """Send requests of all mixes in the same batches and test each by its own parameters."""
    count = session.budget.joint
    if not count:
        session.seen.not_tested.append(f"{', '.join(map(str, MIXES))}: from the default budget on")
        return None
    asks = _asks(session, count)
    tokens, pairs = session.ask_and_score(asks)
    prompts = [ask.ids for ask, _ in pairs]
    found: dict[Mix, Found] = {}
    gap = ""
    for place, mix in enumerate(MIXES):
        table = tokens.where(tokens.request % len(MIXES) == place)
        if not mix.penalty:
            found[mix] = _examine(mix, table.verified())
        else:
            found[mix], gap = _penalised(session, mix, table, prompts)
    others = min(one.least for mix, one in found.items() if not mix.penalty)
    return Evidence(
        name="parameters together, side by side",
        stage="joint",
        method="score tests of each mix, all mixes in the same batches",
        n_tokens=int((tokens.position > 0).sum()),
        concurrency=session.abreast(len(asks)),
        tests={name: p for one in found.values() for name, p in one.tests.items()},
        fails="; ".join(
            f"{one.excluded} tokens are excluded by {mix}"
            for mix, one in found.items()
            if one.excluded
        ),
        gap=gap if others >= _REJECT else "",
        note=", ".join(map(str, MIXES)),
        seen={name: words for one in found.values() for name, words in one.seen.items()},
    )


def _asks(session: Session, count: int) -> list[Ask]:
    """Return requests of all mixes in turn: request r has mix r modulo their number."""
    length = min(session.budget.length, 64)
    return [
        Ask(
            ids=ids,
            max_tokens=length,
            temperature=mix.filters.temperature,
            top_k=mix.filters.top_k,
            top_p=mix.filters.top_p,
            frequency_penalty=mix.penalty,
            ignore_eos=True,
            stream=True,
        )
        for ids, mix in zip(session.next_prompts(count * len(MIXES)), MIXES * count, strict=True)
    ]


def _examine(mix: Mix, rows: ScoredTokens, worth: Floats | None = None) -> Found:
    """Test the temperature and the share of the favourite; count what the filters exclude.

    `worth` is what the penalty takes off each rank: then its strength is tested as well.
    """
    wide = replace(mix.filters, top_p=min(mix.filters.top_p + _FORBIDDEN_MASS, 1.0))
    bad = forbidden(rows, wide, _FORBIDDEN_NAT)
    good = rows.where(~bad)
    atoms = shape_any(good, mix.filters) if combined(mix.filters) else shape(good, mix.filters)
    found = {"temperature": scores.log_likelihood(atoms), "favourite": scores.favourite(atoms)}
    if worth is not None:
        tail = np.zeros((len(atoms), 1))
        found["penalty"] = scores.score_of(atoms, np.hstack([worth[~bad][atoms.row], tail]))
    tests, seen = {}, {}
    for name, score in found.items():
        if score.p is not None:
            tests[f"{mix}, {name}"] = score.p
            seen[f"{mix}, {name}"] = (
                f"under {mix} the {name} test has Z {score.z:+.1f} on {len(atoms)} tokens"
            )
    return Found(tests, seen, int(bad.sum()))


def _penalised(
    session: Session, mix: Mix, table: ScoredTokens, prompts: Sequence[Sequence[int]]
) -> tuple[Found, str]:
    """Test under the way of counting that fits best; name the gap where only a relaxed one does."""
    verified = table.position > 0

    def by(counting: Counting, applied: float = 1.0) -> Found:
        judged, worth = penalised(table, mix.penalty, counting, prompts, applied=applied)
        return _examine(mix, judged.where(verified), worth[verified])

    best = max((by("answer"), by("window")), key=lambda one: one.least)
    known = session.server.quirks.penalty_gap if session.server.speculative else ""
    if best.least >= _REJECT or not known:
        return best, ""
    relaxed = max(by("round").least, by("last").least)
    return best, known if relaxed >= _REJECT and relaxed > by("answer", 0.0).least else ""
