"""What the verdicts say about losslessness: claims in their resolution, or what is missing."""

from collections.abc import Iterator
from typing import Any

from specbench.report.cells import plain
from specbench.report.findings import violations
from specbench.report.findings.violations import server_of
from specbench.report.inputs import Evidence
from specbench.report.numbers import show
from specbench.report.statements import Kind, Section, Statement, Table, count, listed

MAX_WITNESSES = 3

WORDS = {
    "holds": "holds",
    "violated": "is violated",
    "inconclusive": "is not decided",
}
KINDS: dict[str, Kind] = {"holds": "claim", "violated": "violated"}
RESOLUTION = {
    "t_eff_pct": "{} % of temperature",
    "excess_greedy_pct": "{} % of tokens turned greedy",
    "garbage_pct": "{} % of garbage tokens",
}


def section(evidence: Evidence) -> Section:
    """Say what each verdict document claims, with method, n and witnesses."""
    statements: list[Statement] = []
    rows: list[tuple[Any, ...]] = []
    for document in evidence.verdicts:
        statements.extend(_of_document(document, evidence))
        rows.extend(_claim_row(document, claim) for claim in document.get("claims", []))
    if not evidence.verdicts:
        statements.append(
            Statement(
                kind="withheld",
                text="Losslessness was not tested in this recording: there is no verdict, so the"
                " speeds below say nothing about whether the output is right."
                " `specbench verify` tests it.",
            )
        )
    table = Table(
        heads=("server", "claim", "verdict", "temperature", "concurrency", "tokens",
               "effects (the convicting one first)", "p", "method", "note"),
        rows=tuple(rows),
        caption="Claims of the losslessness verdicts; each interval stands beside its effect",
    )  # fmt: skip
    return Section(
        anchor="lossless",
        title="Is it lossless?",
        statements=tuple(statements),
        tables=(table,) if rows else (),
        plots=("lossless",) if rows else (),
    )


def _rows(document: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(document[key]) for key in ("trial_id", "block_id") if document.get(key))


def _of_document(document: dict[str, Any], evidence: Evidence) -> Iterator[Statement]:
    server, verdict = server_of(document), str(document.get("verdict"))
    claims = document.get("claims", [])
    tokens = sum(int(claim.get("n_tokens") or 0) for claim in claims)
    seen = "" if verdict == "violated" else _resolution(document)
    yield Statement(
        kind=KINDS.get(verdict, "withheld"),
        text=f"{server}: losslessness {WORDS.get(verdict, verdict)}"
        f" (n = {tokens:,} tokens in {count(len(claims), 'claim')}{seen}).",
        rows=_rows(document),
    )
    yield from _causes(server, document, evidence)
    witnesses = list(_witnesses(server, document))
    yield from witnesses[:1]  # the shortest way to see it, before the claims one by one
    for claim in claims:
        if claim.get("verdict") == "violated":
            yield Statement(
                kind="doubt" if claim.get("known_gap") else "violated",
                text=_violation(server, claim),
                rows=_rows(document),
            )
    yield from witnesses[1:]
    for finding in document.get("integrity", []):
        yield Statement(
            kind="doubt",
            text=f"{server}: {finding.get('name')}: {finding.get('finding')}",
            rows=_rows(document),
        )
    for note in violations.notes_of(document):
        yield Statement(kind="fact", text=f"{server}: {note}", rows=_rows(document))
    if verdict == "inconclusive":
        yield Statement(kind="withheld", text=_needed(server, document), rows=_rows(document))


def _causes(server: str, document: dict[str, Any], evidence: Evidence) -> Iterator[Statement]:
    """Say what the pattern points to, and what the other arms of the run add to it."""
    chain = violations.clean_chain(document, evidence)
    if chain is not None:
        yield Statement(
            kind="violated",
            text=f"{server} verifies trees and is violated, {server_of(chain)} verifies chains of"
            " the same drafter and holds in the same run: a fault of the drafter, of positions or"
            " of the commit of a chain would show in both. What only a tree has is"
            f" {violations.TREE_CAUSE}. Suspects that say so stand first.",
            rows=(*_rows(document), *_rows(dict(chain))),
        )
    suspects = violations.suspects_of(document, evidence)
    if suspects:
        yield Statement(
            kind="fact",
            text=f"{server}: the pattern points to {suspects[0]}."
            + (" Further suspects, most likely first:" if len(suspects) > 1 else ""),
            rows=_rows(document),
            details=tuple(suspects[1:]),
        )


def _witnesses(server: str, document: dict[str, Any]) -> Iterator[Statement]:
    witnesses = document.get("witnesses", [])
    for number, witness in enumerate(witnesses[:MAX_WITNESSES], 1):
        yield Statement(
            kind="fact",
            text=f"{server}: reproduced wrong token {number} of {len(witnesses)}: the server"
            f" emitted token {witness.get('token')} at position {witness.get('position')}, where"
            f" the target's own first choice is {witness.get('target_argmax')},"
            f" {show(witness.get('margin_nat'))} nat above it. The command asks for one token"
            f" after the same tokens: it shows the target's choice,"
            f" {witness.get('target_argmax')}. The server must be running (see How to see it"
            " again).",
            rows=_rows(document),
            details=(str(witness.get("curl") or ""),),
        )


def _violation(server: str, claim: dict[str, Any]) -> str:
    effects, note = violations.effects_of(claim), str(claim.get("note") or "")
    p = f", p = {claim['p']:.1e}" if claim.get("p") is not None else ""
    gap = (
        f" A documented upstream behaviour: {claim['known_gap']}." if claim.get("known_gap") else ""
    )
    temperature = plain(claim.get("temperature"))
    at = [f"temperature {temperature}"] if temperature is not None else []
    at.append(f"concurrency {claim.get('concurrency')}")
    sure = " The tokens that came again convict; the share is an estimate."
    return (
        f"{server}: `{claim.get('name')}` is violated at {', '.join(at)}:"
        f" {effects or note or 'no effect was recorded'}{p}"
        f" (n = {int(claim.get('n_tokens') or 0):,} tokens, {claim.get('method')})."
        f"{f' {note}.' if effects and note else ''}"
        f"{sure if effects and violations.REPRODUCED in note else ''}{gap}"
    )


def _resolution(document: dict[str, Any]) -> str:
    told = [
        RESOLUTION[name].format(show(value))
        for name, value in (document.get("resolution") or {}).items()
        if name in RESOLUTION and value is not None
    ]
    return f"; smallest effects that would have been seen: {listed(told)}" if told else ""


def _needed(server: str, document: dict[str, Any]) -> str:
    needed = document.get("needed") or {}
    cost = [f"{show(value)} {name}" for name, value in needed.items() if value]
    return (
        f"{server}: a decision needs about {listed(cost)} more."
        if cost
        else (f"{server}: the evidence does not decide, and what more would decide was not stated.")
    )


def _claim_row(document: dict[str, Any], claim: dict[str, Any]) -> tuple[Any, ...]:
    return (
        server_of(document),
        claim.get("name"),
        claim.get("verdict"),
        plain(claim.get("temperature")),
        claim.get("concurrency"),
        claim.get("n_tokens"),
        violations.effects_of(claim) or None,
        claim.get("p"),
        claim.get("method"),
        "; ".join(str(claim[key]) for key in ("note", "known_gap") if claim.get(key)) or None,
    )
