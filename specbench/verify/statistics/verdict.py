"""From evidence to verdicts: three-valued, with a resolution, never beyond what was tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from specbench.model.verdict import Claim, Ground, VerdictName
from specbench.stats.counts import poisson_upper
from specbench.verify.statistics.evidence import Effect, Evidence
from specbench.verify.statistics.sizes import decisive


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """How the chance of a false alarm is spent: hard witnesses cost nothing.

    `statistics` is shared by all p-values of a run (Bonferroni), `betting` by the e-processes;
    a rejection counts only if the same test is below `confirm` on fresh requests.
    """

    statistics: float = 0.006
    betting: float = 0.004
    confirm: float = 0.05

    def share(self, evidences: Sequence[Evidence]) -> float:
        """Return the level of one p-value when all of `evidences` are tested."""
        return self.statistics / max(sum(len(e.tests) for e in evidences), 1)

    def bar(self, evidences: Sequence[Evidence]) -> float:
        """Return the log-wealth that one e-process must reach."""
        bets = sum(e.log_e is not None for e in evidences)
        return math.log(max(bets, 1) / self.betting)


def suspicious(evidence: Evidence, share: float, bar: float) -> bool:
    """Whether fresh requests should be asked for before anything is said."""
    if evidence.witnesses:
        return False
    return bool(evidence.fails) or _suspected(evidence, share, bar)


def judge(evidence: Evidence, share: float, bar: float, rates: ErrorRates) -> Claim:
    """One claim: violated, holds or inconclusive, why, and what convicts."""
    ground = _convict(evidence, share, bar, rates)
    if ground is None:
        doubt = _doubt(evidence, suspected=_suspected(evidence, share, bar))
        verdict, reason, finding = ("inconclusive" if doubt else "holds"), doubt, ""
    else:
        verdict, reason, finding = "violated", ground.reason, _finding(evidence, ground)
    lead = evidence.effects[0] if evidence.effects else None
    return Claim(
        name=evidence.name,
        verdict=cast("VerdictName", verdict),
        method=evidence.method,
        n_tokens=evidence.n_tokens,
        concurrency=evidence.concurrency,
        temperature=evidence.temperature,
        p=min(evidence.tests.values(), default=None),
        effect={e.name: _round(e.value) for e in evidence.effects if math.isfinite(e.value)},
        ci=[_round(lead.low), _round(lead.high)] if lead and math.isfinite(lead.value) else [],
        note="; ".join(x for x in (reason, evidence.note, _traffic(evidence)) if x),
        known_gap=evidence.gap,
        finding=finding,
        ground=_code(ground),
        shows=evidence.shows if ground is not None else "",
        test=ground.key if ground and _code(ground) == "test" else "",
        concurrency_effective=evidence.reached,
        profile={str(k): _round(v) for k, v in evidence.profile.items()},
    )


def overall(claims: Sequence[Claim], essential: Sequence[str]) -> tuple[VerdictName, str]:
    """Return the run's verdict: the worst claim that no documented upstream gap explains.

    `essential` are missing pieces without which nothing can be said to hold.
    """
    counted = [c for c in claims if not c.known_gap]
    violated = [c for c in counted if c.verdict == "violated"]
    if violated:
        return "violated", _accusation(violated)
    if essential:
        return "inconclusive", "; ".join(essential)
    open_ = [f"{c.name}: {c.note}" for c in counted if c.verdict == "inconclusive"]
    if open_:
        return "inconclusive", "; ".join(open_)
    if not counted:
        return "inconclusive", "nothing was tested"
    return "holds", ""


def without_excuses(claims: Sequence[Claim]) -> list[Claim]:
    """Take documented gaps back where something else is violated that none explains.

    What breaks the one may break the other as well: then the gap is no explanation.
    """
    unexplained = any(c.verdict == "violated" and not c.known_gap for c in claims)
    return [
        msgspec.structs.replace(c, known_gap="") if unexplained and c.verdict == "violated" else c
        for c in claims
    ]


def resolution(evidences: Sequence[Evidence]) -> dict[str, float | None]:
    """Return the smallest effect that would have been seen, in percent: the far interval end."""
    out: dict[str, float | None] = {}
    for name in ("t_eff_pct", "excess_greedy_pct"):
        ends = [
            max(abs(e.low), abs(e.high))
            for v in evidences
            if v.stage in ("S1", "HOT") and (e := v.effect(name)) and math.isfinite(e.value)
        ]
        out[name] = _round(max(ends)) if ends else None
    n = sum(v.n_tokens for v in evidences if v.effect("garbage_pct"))
    hits = sum(
        round(v.n_tokens * e.value / 100) for v in evidences if (e := v.effect("garbage_pct"))
    )
    out["garbage_pct"] = _round(100 * poisson_upper(hits, 0.99) / n) if n else None
    return out


def tokens_needed(evidence: Evidence) -> int:
    """How many more tokens would bring every judged interval inside its margin, if it can be.

    An interval shrinks with the square root of n. One that is centred outside its margin will not
    come in: then a tenfold sample is named as the price of deciding against it.
    """
    factor = max((_growth(e) for e in evidence.effects if not e.inside), default=1.0)
    return math.ceil(evidence.n_tokens * (factor - 1.0))


def _growth(effect: Effect) -> float:
    margin = effect.margin or math.inf
    width = (effect.high - effect.low) / 2
    room = margin - abs(effect.value)
    return min((width / room) ** 2 * 1.1, 10.0) if room > 0 else 10.0


@dataclass(frozen=True, slots=True)
class _Ground:
    """Why a claim is violated: a key of `Evidence.seen`, and the short reason for the note."""

    key: str
    reason: str


def _code(ground: _Ground | None) -> Ground:
    match ground:
        case None:
            return ""
        case _Ground(key="witness"):
            return "witness"
        case _Ground(key="fails"):
            return "fails"
        case _Ground(key="e-process"):
            return "e-process"
        case _:
            return "test"


def _convict(evidence: Evidence, share: float, bar: float, rates: ErrorRates) -> _Ground | None:
    """Return what convicts, or None."""
    if evidence.witnesses:
        return _Ground("witness", f"{len(evidence.witnesses)} reproduced wrong tokens")
    if evidence.fails and evidence.fails_again:
        return _Ground("fails", f"{evidence.fails}, again on fresh requests")
    small = {name: p for name, p in evidence.tests.items() if p < share}
    confirmed = {n: p for n, p in small.items() if evidence.fresh.get(n, 1.0) < rates.confirm}
    if confirmed:
        name = decisive(confirmed, evidence.effect("excess_greedy_pct"))
        return _Ground(
            name, f"{name}: p = {confirmed[name]:.1e}, fresh p = {evidence.fresh[name]:.1e}"
        )
    if _bets(evidence, bar) and (evidence.fresh_log_e or 0.0) >= -math.log(rates.confirm):
        return _Ground(
            "e-process", f"e-process: log E = {evidence.log_e:.0f}, again on fresh requests"
        )
    return None


def _finding(evidence: Evidence, ground: _Ground) -> str:
    """Say what convicts in one sentence: size, what losslessness allows, n, and the p-values."""
    said = evidence.seen.get(ground.key, "")
    if ground.key == "witness" and evidence.witnesses:
        widest = max(w.margin_nat for w in evidence.witnesses)
        said = said or f"{len(evidence.witnesses)} wrong tokens"
        return (
            f"{said}; {len(evidence.witnesses)} of them confirmed by fresh prefills, the widest "
            f"{widest:.1f} nat below the target's own choice (n = {evidence.n_tokens} tokens)"
        )
    if ground.key == "fails":
        return f"{ground.reason} (n = {evidence.n_tokens} tokens)"
    return f"{said or ground.key} (n = {evidence.n_tokens} tokens; {ground.reason})"


def _accusation(violated: Sequence[Claim]) -> str:
    """Lead with the first claim that measures an effect, and what convicts it; name the others."""
    first, *others = sorted(violated, key=lambda claim: not claim.effect)
    lead = f"{first.name}: {first.finding}" if first.finding else first.name
    return lead + (f"; also violated: {', '.join(c.name for c in others)}" if others else "")


def _traffic(evidence: Evidence) -> str:
    if not evidence.foreign:
        return ""
    return f"{evidence.foreign} requests of somebody else ran beside it"


def _bets(evidence: Evidence, bar: float) -> bool:
    return (evidence.log_e or 0.0) >= bar


def _suspected(evidence: Evidence, share: float, bar: float) -> bool:
    return any(p < share for p in evidence.tests.values()) or _bets(evidence, bar)


def _doubt(evidence: Evidence, *, suspected: bool) -> str:
    if evidence.fails:
        return f"{evidence.fails}, but not on fresh requests"
    if suspected:
        return "a small p-value was not seen again on fresh requests"
    if evidence.lacking:
        return evidence.lacking
    return "; ".join(_crossing(e) for e in evidence.effects if not e.inside)


def _crossing(effect: Effect) -> str:
    return (
        f"{effect.name} {effect.value:+.2f} [{effect.low:.2f}, {effect.high:.2f}] "
        f"is not inside +-{effect.margin:g}"
    )


def _round(value: float) -> float:
    return float(f"{value:.4g}")
