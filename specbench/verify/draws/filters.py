"""Filters without scores: what they certainly forbid, and the choice among what they keep."""

from __future__ import annotations

from dataclasses import replace

from specbench.verify.draws.book import Book, Ids
from specbench.verify.draws.sampled import Drawn, draw_wave, wave_cost
from specbench.verify.statistics import exchange
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.exchange import Stratum
from specbench.verify.statistics.sampled import label
from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.zones import Zones, forbidden_p, zones
from specbench.verify.wire import Ask

_BASELINE = 128


def run_filter(book: Book, filters: Filters) -> Evidence | None:
    """Draw under a filter by verification and plainly, where unfiltered draws know its edges."""
    name = f"{label(filters)} in draws" + (" (yours)" if filters == book.session.own else "")
    draws = book.session.budget.draws.filtered
    known = _useful(book, filters) if draws else {}
    if not draws or not known:
        why = "no context is clear of its edges" if draws else "not in this budget"
        book.session.seen.not_tested.append(f"{name}: {why}")
        return None
    nodes = [node for node in book.nodes if node.context in known]
    if book.session.left < wave_cost(nodes, draws):
        book.session.seen.not_tested.append(f"{name}: the budget was spent")
        return None
    drawn = Drawn()
    draw_wave(book, drawn, nodes, filters, draws)
    bad = [0, 0]
    cores: list[Stratum] = []
    share = 0.0
    for context, zone in known.items():
        sides = drawn.verified[context], drawn.plain[context]
        bad = [n + sum(map(zone.forbids, side)) for n, side in zip(bad, sides, strict=True)]
        share = max(share, len(sides[0]) / max(len(sides[0]) + len(sides[1]), 1))
        inside = [[t for t in side if t in zone.core] for side in sides]
        found = exchange.stratum(*inside)
        cores += [found] if found is not None else []
    return _evidence(book, name, filters, (bad[0], bad[1], share), cores, list(known.values()))


def _useful(book: Book, filters: Filters) -> dict[Ids, Zones]:
    if filters.temperature not in book.unfiltered:
        _baseline(book, filters.temperature)
    drawn = book.unfiltered[filters.temperature]
    found = {node.context: zones(drawn.get(node.context, []), filters) for node in book.nodes}
    return {c: zone for c, zone in found.items() if zone is not None and zone.useful}


def _baseline(book: Book, temperature: float) -> None:
    """Draw plainly and without filters at a temperature that no stage has drawn at."""
    contexts = [node.context for node in book.nodes]
    like = Ask((), 1, temperature)
    book.session.flush()
    drawn = book.draw(contexts, [_BASELINE] * len(contexts), like)
    book.unfiltered[temperature] = dict(zip(contexts, drawn, strict=True))


def _evidence(
    book: Book,
    name: str,
    filters: Filters,
    forbidden: tuple[int, int, float],
    cores: list[Stratum],
    known: list[Zones],
) -> Evidence:
    noise = book.allowance(filters.temperature)
    verified, plain, share = forbidden
    tests = {
        "forbidden tokens": forbidden_p(verified, plain, share),
        "temperature within the filter": exchange.tilt(cores, noise).p,
        "homogeneity within the filter": exchange.homogeneity(cores, noise).p,
    }
    n = sum(int(one.n_verified) for one in cores)
    mass = sum(zone.core_share for zone in known) / len(known)
    said = f"{verified} forbidden tokens in verified draws, {plain} in plain ones"
    own = filters == book.session.own
    found = Evidence(
        name=name,
        stage="own" if own else _stage(filters),
        method="draws under the filter against zones from unfiltered draws",
        n_tokens=n,
        concurrency=book.session.client.concurrency,
        temperature=filters.temperature,
        tests={key: p for key, p in tests.items() if p is not None},
        note=f"{len(known)} contexts, {100 * mass:.0f} % of their mass clear of the edges; {said}",
        seen={"forbidden tokens": said} | dict.fromkeys(tests.keys() - {"forbidden tokens"}, ""),
    )
    gap = book.session.server.quirks.min_p_gap if filters.min_p else ""
    return replace(found, gap=gap if verified and book.session.server.speculative else "")


def _stage(filters: Filters) -> str:
    if filters.min_p:
        return "min_p"
    return "top_p" if filters.top_p < 1 else "HOT"
