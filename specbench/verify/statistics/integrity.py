"""What does not add up, and which claims it contradicts.

Output that the target would not have given is a violation whatever its cause: tokens after a stop
token, or more tokens than were asked for. Other findings are shown beside the verdict, and no claim
holds that one of them contradicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from specbench.model.verdict import Claim, IntegrityFinding, VerdictName
from specbench.verify.statistics.counters import OVERRUN, RequestCounters, disagreements

Kind = Literal["stop", "length", "logprobs", "text", "counters"]

_CLAIM: dict[str, str] = {
    "stop": "stop tokens",
    "length": "length limits",
    "logprobs": "verify-against-prefill gap",
    "text": "text of the answers",
}
_VIOLATES = ("stop", "length")


def findings(
    counters: Sequence[RequestCounters], oddities: dict[tuple[Kind, str], int]
) -> list[IntegrityFinding]:
    """Return everything that does not add up, each once, with how often it was seen."""
    found = [
        IntegrityFinding(name="length" if text.startswith(OVERRUN) else "counters", finding=text)
        for text in disagreements(counters)
    ]
    return found + [
        IntegrityFinding(name=kind, finding=f"{what} ({n} times)" if n > 1 else what)
        for (kind, what), n in oddities.items()
    ]


def contradicted(
    claims: Sequence[Claim], found: Sequence[IntegrityFinding], n_tokens: int
) -> list[Claim]:
    """Return the claims after what does not add up: none holds that a finding contradicts.

    Violations without a claim of their own get one.
    """
    said: dict[str, str] = {}
    for one in found:
        if name := _CLAIM.get(one.name):
            said[name] = "; ".join(x for x in (said.get(name), one.finding) if x)
    hard = {_CLAIM[kind] for kind in _VIOLATES}
    out = [_against(c, said[c.name], hard) if c.name in said else c for c in claims]
    missing = [name for name in said if name in hard and name not in {c.name for c in claims}]
    return out + [
        Claim(
            name=name,
            verdict="violated",
            method="form of every answer",
            n_tokens=n_tokens,
            concurrency=0,
            note=said[name],
            finding=said[name],
        )
        for name in missing
    ]


def _against(claim: Claim, said: str, hard: set[str]) -> Claim:
    violated = claim.name in hard
    if claim.verdict == "violated" or (not violated and claim.verdict != "holds"):
        return claim
    values = {name: getattr(claim, name) for name in claim.__struct_fields__}
    verdict: VerdictName = "violated" if violated else "inconclusive"
    note = f"contradicted by an integrity finding: {said}"
    changed = {"verdict": verdict, "note": "; ".join(x for x in (note, claim.note) if x)}
    return Claim(**(values | changed | ({"finding": said} if violated else {})))
