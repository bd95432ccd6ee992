"""From everything a run has seen to the verdict document and the text that explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from specbench.model.verdict import Claim, Suspect, VerdictDocument, VerdictName
from specbench.verify.explain import write_findings
from specbench.verify.handshake import Server
from specbench.verify.levels import costs
from specbench.verify.options import VerifyOptions
from specbench.verify.reference import Reference
from specbench.verify.session import Session
from specbench.verify.statistics.counters import accept_len
from specbench.verify.statistics.diagnosis import suspects
from specbench.verify.statistics.evidence import Evidence
from specbench.verify.statistics.integrity import contradicted
from specbench.verify.statistics.verdict import (
    ErrorRates,
    judge,
    overall,
    resolution,
    tokens_needed,
    without_excuses,
)
from specbench.version import __version__


@dataclass(slots=True)
class Conclusion:
    """`essential` are reasons why nothing can be said to hold; `notes` go to the findings.

    `cut_short` says that the service failed before the last stage; `scored_by` are the facts of the
    server that scored recorded outputs, where that is another one.
    """

    session: Session
    options: VerifyOptions
    reference: Reference | None
    evidences: list[Evidence] = field(default_factory=list)
    essential: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut_short: bool = False
    scored_by: dict[str, Any] = field(default_factory=dict)


def conclude(conclusion: Conclusion, seconds: float) -> VerdictDocument:
    """Judge all evidence and write the document."""
    session, evidences = conclusion.session, conclusion.evidences
    rates = ErrorRates()
    share, bar = rates.share(evidences), rates.bar(evidences)
    integrity = session.integrity()
    odd = frozenset(one.name for one in integrity)
    judged = [judge(evidence, share, bar, rates) for evidence in evidences]
    claims = contradicted(without_excuses(judged), integrity, session.client.spent.generated)
    essential = [*conclusion.essential, *_missing(evidences)]
    # What integrity alone puts in doubt stands in the headline, and decides no verdict on tokens.
    doubted = {one.name for one, was in zip(claims, judged, strict=False) if _doubted(one, was)}
    verdict, reason = overall([c for c in claims if c.name not in doubted], essential)
    seen = resolution(evidences)
    garbage = seen["garbage_pct"]
    if verdict == "holds" and (garbage or 100.0) > session.budget.margins.garbage_pct:
        verdict, reason = "inconclusive", f"wrong tokens up to {garbage} % cannot be ruled out"
    document = VerdictDocument(
        verdict=verdict,
        resolution=seen,
        claims=claims,
        witnesses=[w for e in evidences for w in e.witnesses],
        integrity=integrity,
        not_tested=[*(essential if verdict == "violated" else []), *_not_tested(conclusion)],
        needed=_needed(verdict, evidences, claims, session, seconds),
        suspects=[
            *_upstream(session.server, claims),
            *suspects(evidences, judged, odd, greedy_gap=session.server.quirks.greedy_gap),
        ],
        reason=reason,
        evidence=session.server.level,
        costs=costs(session.server.abilities),
        stats=_stats(conclusion, seconds),
        server=dict(session.server.facts),
        reference=_reference(conclusion),
        prompts_sha256=session.prompts.sha256,
        sampling=_sampling(session),
        specbench=__version__,
        notes=list(conclusion.notes),
    )
    return _with_findings(document)


def without_battery(server: Server, verdict: str, reason: str) -> VerdictDocument:
    """Write the document of a server on which no test was run."""
    name = cast("Literal['holds', 'violated', 'inconclusive']", verdict)
    document = VerdictDocument(
        verdict=name,
        reason=reason,
        not_tested=["everything: see the reason"],
        evidence=server.level if server.abilities else "",
        costs=costs(server.abilities) if server.abilities else [],
        server=dict(server.facts),
        specbench=__version__,
    )
    return _with_findings(document)


def _with_findings(document: VerdictDocument) -> VerdictDocument:
    return msgspec.structs.replace(document, findings=write_findings(document))


def _doubted(claim: Claim, before: Claim) -> bool:
    return before.verdict == "holds" and claim.verdict == "inconclusive"


def _missing(evidences: Sequence[Evidence]) -> list[str]:
    """Return which of the two sides has no evidence at all."""
    stages = {e.stage for e in evidences if e.n_tokens}
    out = []
    if not stages & {"G1", "GC"}:
        out.append("temperature 0 was not tested")
    if not stages & {"S1", "HOT"}:
        out.append("temperature above 0 was not tested")
    return out


def _not_tested(conclusion: Conclusion) -> list[str]:
    session = conclusion.session
    out = list(dict.fromkeys(session.seen.not_tested))
    if conclusion.reference is None:
        out.append(
            "what is wrong in prefill and verify alike (weights, template): no reference was given"
        )
    if not session.seen.stop_ids:
        out.append("stop tokens: no request ended by itself")
    return [*out, "LoRA, multimodal inputs, disaggregated prefill"]


def _needed(
    verdict: VerdictName,
    evidences: Sequence[Evidence],
    claims: Sequence[Claim],
    session: Session,
    seconds: float,
) -> dict[str, float]:
    if verdict != "inconclusive":
        return {"tokens": 0, "minutes": 0}
    open_ = [e for e, c in zip(evidences, claims, strict=True) if c.verdict == "inconclusive"]
    tokens = sum(tokens_needed(e) for e in open_)
    rate = session.client.spent.generated / max(seconds, 1e-3)
    minutes = math.ceil(10 * tokens / max(rate, 1e-3) / 60) / 10
    return {"tokens": tokens, "minutes": minutes}


def _stats(conclusion: Conclusion, seconds: float) -> dict[str, Any]:
    session = conclusion.session
    spent = session.client.spent
    counters = [*session.seen.greedy_counters, *session.seen.sampled_counters]
    mean = accept_len(counters)
    return {
        "generated_tokens": spent.generated,
        "recorded_tokens": session.replayed,
        "scored_tokens": spent.scored,
        "requests": spent.requests,
        "seconds": round(seconds, 1),
        "seed": session.seed,
        "budget": conclusion.options.budget,
        "abilities": sorted(session.server.abilities),
        "accept_len": round(mean, 3) if mean is not None else None,
        "margins": {
            "t_eff_pct": session.budget.margins.t_eff_pct,
            "excess_greedy_pct": session.budget.margins.excess_greedy_pct,
            "garbage_pct": session.budget.margins.garbage_pct,
            "soft_nat": session.control.margins.soft,
            "hard_nat": session.control.margins.hard,
        },
    }


def _upstream(server: Server, claims: Sequence[Claim]) -> list[Suspect]:
    """Name a fault of a released server that explains wrong sampling, where its version fits."""
    sampled = any(c.verdict == "violated" and (c.temperature or 0.0) > 0 for c in claims)
    if not sampled:
        return []
    return [
        Suspect(code="upstream", text=text)
        for version, text in server.quirks.sampling_faults.items()
        if server.version.startswith(version)
    ]


def _reference(conclusion: Conclusion) -> dict[str, Any]:
    if conclusion.reference is None:
        return {}
    scored_by = {"scored_by": conclusion.scored_by} if conclusion.scored_by else {}
    return {"sha256": conclusion.reference.sha256, **conclusion.reference.manifest, **scored_by}


def _sampling(session: Session) -> dict[str, Any]:
    return {
        "greedy": {"temperature": 0.0},
        "kernel": {"temperature": 1.0, "top_k": 1},
        "sampled": [
            {
                "temperature": f.temperature,
                "top_k": f.top_k or -1,
                "top_p": f.top_p,
                "min_p": f.min_p,
                "tokens": n,
            }
            for f, n in session.budget.sampled
        ],
    }
