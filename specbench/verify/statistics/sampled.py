"""All score tests of one sampled configuration, gathered into evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbench.stats.counts import poisson_upper
from specbench.verify.statistics import scores, sizes
from specbench.verify.statistics.eprocess import e_process
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.production import combined, forbidden, shape_any
from specbench.verify.statistics.shaping import Atoms, Filters, shape, support_violations
from specbench.verify.statistics.tokens import Bools, Ints, ScoredTokens

HARD_NAT = 3.0


@dataclass(frozen=True, slots=True)
class SampledMargins:
    """Margins in percent inside which an effect is called absent; `level` of the intervals."""

    t_eff_pct: float
    excess_greedy_pct: float
    garbage_pct: float
    level: float = 0.99


def examine(
    tokens: ScoredTokens,
    filters: Filters,
    margins: SampledMargins,
    *,
    vocab: int,
    stop_ids: frozenset[int],
    alpha: float,
    seed: int,
) -> tuple[Evidence, Bools]:
    """Evidence from verified tokens (`tokens.verified()`), and which rows are impossible.

    Impossible rows (support) are candidates for witnesses: the caller confirms them.
    """
    bad = impossible(tokens, filters)
    good = tokens.where(~bad)
    atoms = shape_any(good, filters) if combined(filters) else shape(good, filters)
    likelihood = scores.log_likelihood(atoms)
    unlumped = good.logp[atoms.row] if filters == Filters() else None
    bet = e_process(atoms, unlumped, vocab, alpha)
    effects = _effects(atoms, likelihood, filters, int(bad.sum()), len(tokens), margins)
    tests, seen = _tests(good, atoms, likelihood, stop_ids, seed)
    evidence = Evidence(
        name=f"sampled {label(filters)}",
        stage=_stage(filters),
        method="score tests against prefill conditionals",
        n_tokens=len(tokens),
        concurrency=0,
        temperature=filters.temperature,
        tests=tests,
        log_e=bet.log_max,
        effects=effects,
        profile=scores.profile(likelihood, good.round_index[atoms.row]),
        note=f"best bet: {bet.best}" if bet.crossed_at else "",
        seen={
            **seen,
            "log-likelihood": sizes.temperature_size(effects[0], filters.temperature),
            "favourite": sizes.greedy_size(effects[1]),
            "e-process": f"the bet on '{bet.best}' multiplied its stake by e^{bet.log_max:.0f}",
            "witness": f"{int(bad.sum())} of {len(tokens)} tokens are excluded by {label(filters)}",
        },
    )
    return evidence, bad


def impossible(tokens: ScoredTokens, filters: Filters) -> Bools:
    """Rows whose token the filters forbid by more than numerical noise explains."""
    if combined(filters):
        return forbidden(tokens, filters, HARD_NAT)
    return support_violations(tokens, filters, HARD_NAT)


def label(filters: Filters) -> str:
    """Return a configuration in words, T first."""
    parts = [f"T={filters.temperature:g}"]
    if filters.top_k:
        parts.append(f"top_k={filters.top_k}")
    if filters.top_p < 1:
        parts.append(f"top_p={filters.top_p:g}")
    if filters.min_p:
        parts.append(f"min_p={filters.min_p:g}")
    return " ".join(parts)


def _tests(
    tokens: ScoredTokens, atoms: Atoms, likelihood: scores.Score, stops: frozenset[int], seed: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the p-values by test, and what each of these tests saw, in words."""
    uniforms = scores.pit(atoms, np.random.default_rng(seed))
    tail, stop_rank = scores.tail(atoms), _stop_rank(tokens, atoms, stops)
    stop = scores.stop_token(atoms, stop_rank)
    in_tail = int((atoms.chosen == atoms.probs.shape[1] - 1).sum())
    stopped = int(((atoms.chosen == stop_rank) & (stop_rank >= 0)).sum())
    found: dict[str, float | None] = {
        "log-likelihood": likelihood.p,
        "favourite": scores.favourite(atoms).p,
        "tail": tail.p,
        "ranks": scores.rank_table(atoms),
        "PIT": scores.pit_uniformity(uniforms),
        "stop token": stop.p,
    }
    seen = {
        "tail": sizes.count_size("a token beyond the known ranks came", tail, in_tail),
        "ranks": sizes.rank_size(atoms),
        "PIT": sizes.pit_size(uniforms),
        "stop token": sizes.count_size("a stop token came", stop, stopped),
    }
    if len(atoms) > 500:
        for lag in (1, 2, 3):
            score = scores.serial(atoms, uniforms, lag)
            found[f"serial {lag}"] = score.p
            seen[f"serial {lag}"] = sizes.serial_size(score, lag)
    return {name: p for name, p in found.items() if p is not None}, seen


def _stop_rank(tokens: ScoredTokens, atoms: Atoms, stops: frozenset[int]) -> Ints:
    """Return the atom of the likeliest stop token in each row, -1 where none is among the K."""
    hit = np.isin(tokens.top_ids[atoms.row], list(stops))
    rank = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
    reachable = atoms.probs[np.arange(len(atoms)), rank] > 0
    return np.where(reachable, rank, -1)


def _effects(
    atoms: Atoms,
    likelihood: scores.Score,
    filters: Filters,
    impossible: int,
    n: int,
    margins: SampledMargins,
) -> tuple[Effect, ...]:
    tilt = scores.temperature_error_pct(likelihood, margins.level)
    greedy = scores.excess_greedy_pct(atoms, margins.level)
    effects = [
        _sized("t_eff_pct", tilt, filters, margins.t_eff_pct),
        _sized("excess_greedy_pct", greedy, filters, margins.excess_greedy_pct),
    ]
    if filters.top_k:
        upper = 100 * poisson_upper(impossible, margins.level) / max(n, 1)
        effects.append(Effect("garbage_pct", 100 * impossible / max(n, 1), 0.0, upper))
    return tuple(effects)


def _sized(name: str, found: scores.Estimate, filters: Filters, margin: float) -> Effect:
    """Return an effect with its margin; that of a nucleus or a mix is what so many tokens can tell.

    How much choice is left under somebody's own parameters is not known beforehand. Beyond 100 % a
    margin says nothing: then the effect is shown and not judged.
    """
    wide: float | None = _slack(filters) * margin
    open_ended = combined(filters) or filters.top_p < 1
    if open_ended and found.half_width > 0.4 * _slack(filters) * margin:
        wide = 2.5 * found.half_width if found.half_width < 40.0 else None
    return Effect(name, found.value, found.low, found.high, wide)


def _slack(filters: Filters) -> float:
    """Return how much wider the margins are: a filter that leaves little entropy says less a token.

    Measured a token at T=1 (and 2.5), T=0.6 and top_p=0.8: the temperature's standard error is
    about 1 : 2 : 6, so equal margins would cost 36 times the tokens under top_p.
    """
    if filters.top_p < 1:
        return 8.0
    return 3.0 if 0 < filters.temperature < 1 else 1.0


def _stage(filters: Filters) -> str:
    if filters == Filters():
        return "S1"
    return "HOT" if filters.temperature > 1 else "T!=1"
