"""Temperature above 0 without scores: draws of verification beside plain draws, in waves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specbench.verify.draws.book import Book, Ids, Node, split
from specbench.verify.statistics import exchange
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.exchange import Stratum
from specbench.verify.statistics.sampled import label
from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.sizes import greedy_size, temperature_size
from specbench.verify.wire import Ask

# A first token this frequent (a part of a wave) makes its successor a context as well.
_FOLLOWED = 1 / 6
# About how many p-values a run has: a wave that is below this share of them needs no further one.
_DECIDED = 0.006 / 55
_ODD = 0.1
_SHOWN = 64
_LEAST_DRAWS = 16
_COINS_FROM = 96
METHOD = "exchangeability of verified and plain draws at the same contexts"


@dataclass(slots=True)
class Drawn:
    """Draws by context, `plain` and `verified`; `calls` the verified ones by context and start."""

    plain: dict[Ids, list[int]] = field(default_factory=lambda: defaultdict(list))
    verified: dict[Ids, list[int]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[tuple[Ids, int], list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    after_plain: dict[Ids, list[int]] = field(default_factory=lambda: defaultdict(list))
    after_verified: dict[Ids, list[int]] = field(default_factory=lambda: defaultdict(list))
    draws: int = 0

    def strata(self, top_k: int) -> tuple[list[Stratum], list[Stratum]]:
        """Return the strata at the open contexts, and at those that follow them."""
        at = _strata(self.verified, self.plain)
        after = _strata(self.after_verified, self.after_plain)
        if top_k:
            return (
                [exchange.lumped(s, top_k - 2) for s in at],
                [exchange.lumped(s, top_k - 2) for s in after],
            )
        return at, after


def run_sampled(book: Book, filters: Filters, waves: Sequence[int]) -> Evidence | None:
    """Draw in waves until something is decided, or until all waves are drawn.

    A wave that makes a p-value small enough ends the stage, and so does one after which every
    interval lies inside its margin. Each look has its share of the error.
    """
    if not book.nodes:
        book.session.seen.not_tested.append(f"{_name(book, filters)}: no open context was found")
        return None
    drawn, looks = Drawn(), len(waves)
    found = None
    for wanted in waves:
        wave = affordable(book, wanted)
        if not wave:
            break
        draw_wave(book, drawn, book.nodes, filters, wave)
        found = _examine(book, drawn, filters, looks)
        least = min(found.tests.values(), default=1.0)
        settled = bool(found.effects) and all(e.inside for e in found.effects)
        # What looks odd is drawn to the end: intervals say nothing about coins and residuals.
        if least < _DECIDED or (settled and least > _ODD * looks):
            break
    if not filters.top_k and filters.top_p == 1 and not filters.min_p and found is not None:
        book.unfiltered[filters.temperature] = {
            c: drawn.plain[c] + drawn.verified[c] for c in drawn.plain
        }
    if filters == Filters() and not book.session.seen.contexts:
        book.session.seen.contexts += drawn.strata(0)[0]
    if found is None:
        book.session.seen.not_tested.append(f"{_name(book, filters)}: the budget was spent")
    return found


def affordable(book: Book, draws: int) -> int:
    """Return the draws of a wave that the budget still has tokens for; 0 if too few to say much."""
    most = min(draws, int(book.session.left / wave_cost(book.nodes, 1)))
    return most if most >= min(draws, _LEAST_DRAWS) else 0


def wave_cost(nodes: Sequence[Node], draws: int) -> int:
    """Return about how many tokens a wave generates: both sides, and what follows."""
    return math.ceil(sum(draws * (3.5 + node.run / 2) for node in nodes))


def draw_wave(
    book: Book, drawn: Drawn, nodes: Sequence[Node], filters: Filters, draws: int
) -> None:
    """Draw by verification from every start, empty the cache, then draw plainly."""
    like = Ask(
        (), 1, filters.temperature, filters.top_k, filters.top_p, filters.min_p, ignore_eos=True
    )
    session = book.session
    asks, owners = _verified_asks(book, nodes, like, draws)
    follow: dict[Ids, list[int]] = defaultdict(list)
    session.flush()
    for (node, start), parts in zip(owners, session.ask(asks), strict=True):
        kept = []
        certain = node.path[node.place - start : node.place]
        for part in parts:
            if part.ids[:start] == certain and len(part.ids) > start:
                kept.append(part.ids[start])
                if len(part.ids) > start + 1:
                    follow[(*node.context, part.ids[start])].append(part.ids[start + 1])
        drawn.verified[node.context] += kept
        drawn.calls[node.context, start].append(kept)
    followed = {c: some for c, some in follow.items() if len(some) >= draws * _FOLLOWED}
    contexts = [node.context for node in nodes]
    session.flush()
    for context, some in zip(
        contexts, book.draw(contexts, [draws] * len(nodes), like), strict=True
    ):
        drawn.plain[context] += some
    after = list(followed)
    counts = [len(followed[c]) for c in after]
    for context, some in zip(after, book.draw(after, counts, like), strict=True):
        drawn.after_plain[context] += some
        drawn.after_verified[context] += followed[context]
    drawn.draws += draws


def _verified_asks(
    book: Book, nodes: Sequence[Node], like: Ask, draws: int
) -> tuple[list[Ask], list[tuple[Node, int]]]:
    """Return the requests; equal ones stand far apart, so that batches mix contexts."""
    rows = []
    for node in nodes:
        for start in range(1, node.run + 1):
            for number, n in enumerate(split(-(-draws // node.run), book.per_call)):
                ask = Ask(
                    node.path[: node.place - start],
                    start + 2,
                    like.temperature,
                    like.top_k,
                    like.top_p,
                    like.min_p,
                    ignore_eos=True,
                    n=n,
                )
                rows.append((number, start, node, ask))
    rows.sort(key=lambda row: row[:2])
    return [ask for *_, ask in rows], [(node, start) for _, start, node, _ in rows]


def _examine(book: Book, drawn: Drawn, filters: Filters, looks: int) -> Evidence:
    at, after = drawn.strata(filters.top_k)
    noise = book.allowance(filters.temperature)
    margins, slack = book.session.budget.margins, _slack(filters)
    both = [*at, *after]
    heat = _temperature(exchange.tilt(both, noise), margins.level)
    share, width = exchange.greedy_share(both, noise, margins.level)
    effects = (
        _effect("t_eff_pct", *heat, slack * margins.t_eff_pct),
        _effect("excess_greedy_pct", 100 * share, 100 * width, slack * margins.excess_greedy_pct),
    )
    tests, seen, doubt = _tests(book, drawn, (at, after), filters, noise)
    seen |= {
        "temperature": temperature_size(effects[0], filters.temperature),
        "favourite": greedy_size(effects[1]),
    }
    verified = sum(map(len, drawn.verified.values())) + sum(map(len, drawn.after_verified.values()))
    return Evidence(
        name=_name(book, filters),
        stage=_stage(book, filters),
        method=METHOD,
        n_tokens=verified,
        concurrency=book.session.client.concurrency,
        temperature=filters.temperature,
        tests={name: min(1.0, looks * p) for name, p in tests.items()},
        effects=effects,
        lacking=doubt or ("" if tests else "too few draws reached an open context"),
        note=f"{len(at)} contexts and {len(after)} after them, {drawn.draws} draws a side",
        seen=seen,
        shows=_shows(book, at, drawn, filters),
    )


def _shows(book: Book, at: Sequence[Stratum], drawn: Drawn, filters: Filters) -> str:
    """Return two commands whose counts differ most: draws of verification, then plain ones."""
    number = exchange.farthest(at)
    contexts = [c for c in drawn.verified if c in drawn.plain and drawn.verified[c]]
    node = next((n for n in book.nodes if n.context == contexts[number]), None) if at else None
    if node is None:
        return ""
    like = Ask(
        node.path[: node.place - 1],
        2,
        filters.temperature,
        filters.top_k,
        filters.top_p,
        filters.min_p,
        ignore_eos=True,
        n=_SHOWN if book.per_call > 1 else 1,
    )
    plain = replace(like, ids=node.context, max_tokens=1)
    return f"{book.session.curl(like)} # second tokens, against: {book.session.curl(plain)}"


def _tests(
    book: Book,
    drawn: Drawn,
    parts: tuple[list[Stratum], list[Stratum]],
    filters: Filters,
    noise: float,
) -> tuple[dict[str, float], dict[str, str], str]:
    """Return p-values, what each saw, and what is too small a difference to be called a fault."""
    at, after = parts
    both = [*at, *after]
    seen: dict[str, str] = {}
    found: dict[str, float | None] = {
        "temperature": exchange.tilt(both, noise).p,
        "favourite": exchange.favourite(both, noise).p,
        "rare tokens": exchange.rare(both, noise).p,
    }
    doubt = ""
    for name, some in (("homogeneity", at), ("homogeneity of next tokens", after)):
        result = exchange.homogeneity(some, noise)
        small = result.p is not None and result.p < 1e-3 and result.drift_nat < 2 * noise
        if small:
            doubt = f"the verify rows differ from prefill by about {result.drift_nat:.2f} nat rms"
            continue
        found[name] = result.p
        seen[name] = exchange.largest_shift(some)
    if not (filters.top_k or filters.top_p < 1 or filters.min_p) and drawn.draws >= _COINS_FROM:
        rng = np.random.default_rng(book.session.seed)
        p, excess, spread = exchange.shared_coins(list(drawn.calls.values()), rng)
        if p is not None:
            found["shared coins"] = p
            seen["shared coins"] = (
                f"draws of one request agreed in {excess:+.0f} pairs more than draws of several, "
                f"where 0 +- {spread:.0f} are due"
            )
            if p < 1e-6:
                found = {"shared coins": p}
    return {name: p for name, p in found.items() if p is not None}, seen, doubt


def _temperature(contrast: exchange.Contrast, level: float) -> tuple[float, float]:
    """Return the error of the effective temperature T/beta in percent, with its half-width."""
    value, width = contrast.size(level)
    if math.isnan(value):
        return math.nan, math.inf
    beta = max(1.0 + value, 0.05)
    return 100 * (1 / beta - 1), 100 * width / beta**2


def _effect(name: str, value: float, width: float, margin: float) -> Effect:
    return Effect(name, value, value - width, value + width, margin)


def _strata(verified: dict[Ids, list[int]], plain: dict[Ids, list[int]]) -> list[Stratum]:
    contexts: Iterable[Ids] = [c for c in verified if c in plain]
    return exchange.strata([verified[c] for c in contexts], [plain[c] for c in contexts])


def _slack(filters: Filters) -> float:
    """Return how much wider the margins are: hot or cold draws say less, as measured."""
    if filters.top_p < 1 or filters.min_p:
        return 8.0
    if filters.temperature > 1:
        return 3.0
    return 2.0 if filters.temperature < 1 else 1.0


def _name(book: Book, filters: Filters) -> str:
    return f"sampled {label(filters)}" + (" (yours)" if filters == book.session.own else "")


def _stage(book: Book, filters: Filters) -> str:
    if filters == book.session.own:
        return "own"
    if filters == Filters():
        return "S1"
    return "HOT" if filters.temperature > 1 else "T!=1"
