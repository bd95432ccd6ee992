"""What the verdicts say about losslessness: claims in their resolution, or what is missing."""

from collections.abc import Iterator
from typing import Any

from specbench.report.cells import plain
from specbench.report.evidence import Evidence
from specbench.report.numbers import show
from specbench.report.statements import Kind, Section, Statement, Table, count, listed

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
        statements.extend(_of_document(document))
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
        heads=(
            "server",
            "claim",
            "verdict",
            "temperature",
            "concurrency",
            "tokens",
            "effect",
            "95 % interval",
            "p",
            "method",
        ),
        rows=tuple(rows),
        caption="Claims of the losslessness verdicts",
    )
    return Section(
        anchor="lossless",
        title="Is it lossless?",
        statements=tuple(statements),
        tables=(table,) if rows else (),
        plots=("lossless",) if rows else (),
    )


def server_of(document: dict[str, Any]) -> str:
    """Name the server of a verdict document."""
    server = document.get("server") or {}
    name = document.get("label") or server.get("speculative_algorithm") or server.get("algorithm")
    return str(name or document.get("block_id") or server.get("url") or "the server")


def _rows(document: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(document[key]) for key in ("trial_id", "block_id") if document.get(key))


def _of_document(document: dict[str, Any]) -> Iterator[Statement]:
    server, verdict = server_of(document), str(document.get("verdict"))
    claims = document.get("claims", [])
    tokens = sum(int(claim.get("n_tokens") or 0) for claim in claims)
    yield Statement(
        kind=KINDS.get(verdict, "withheld"),
        text=f"{server}: losslessness {WORDS.get(verdict, verdict)}"
        f" (n = {tokens:,} tokens in {count(len(claims), 'claim')}{_resolution(document)}).",
        rows=_rows(document),
    )
    for claim in claims:
        if claim.get("verdict") == "violated":
            yield Statement(kind="violated", text=_violation(server, claim), rows=_rows(document))
    yield from _suspects(server, document)
    for witness in document.get("witnesses", [])[:3]:
        yield Statement(
            kind="fact",
            text=f"{server}: a reproduced wrong token: token {witness.get('token')} at position"
            f" {witness.get('position')}, where the target's own first choice is"
            f" {witness.get('target_argmax')}, {show(witness.get('margin_nat'))} nat above it.",
            rows=_rows(document),
            details=(str(witness.get("curl") or ""),),
        )
    for finding in document.get("integrity", []):
        yield Statement(
            kind="doubt",
            text=f"{server}: {finding.get('name')}: {finding.get('finding')}",
            rows=_rows(document),
        )
    if verdict == "inconclusive":
        yield Statement(kind="withheld", text=_needed(server, document), rows=_rows(document))


def _violation(server: str, claim: dict[str, Any]) -> str:
    effect, found = _effect(claim), _interval(claim)
    interval = f", 95 % interval {found}" if found else ""
    p = f", p = {claim['p']:.1e}" if claim.get("p") is not None else ""
    note = f" {claim['note']}" if claim.get("note") else ""
    at = f"temperature {plain(claim.get('temperature'))}, concurrency {claim.get('concurrency')}"
    return (
        f"{server}: `{claim.get('name')}` is violated at {at}:"
        f" {effect or 'see the note'}{interval}{p}"
        f" (n = {int(claim.get('n_tokens') or 0):,} tokens, {claim.get('method')}).{note}"
    )


def _effect(claim: dict[str, Any]) -> str:
    return ", ".join(f"{name} {show(value)}" for name, value in (claim.get("effect") or {}).items())


def _interval(claim: dict[str, Any]) -> str:
    ends = claim.get("ci") or []
    return f"[{', '.join(show(end) for end in ends)}]" if ends else ""


def _resolution(document: dict[str, Any]) -> str:
    told = [
        RESOLUTION[name].format(show(value))
        for name, value in (document.get("resolution") or {}).items()
        if name in RESOLUTION and value is not None
    ]
    return f"; smallest effects that would have been seen: {listed(told)}" if told else ""


def _suspects(server: str, document: dict[str, Any]) -> Iterator[Statement]:
    suspects = [str(one) for one in document.get("suspects") or []]
    if suspects:
        yield Statement(
            kind="fact",
            text=f"{server}: the pattern points to {listed(suspects)}.",
            rows=_rows(document),
        )
    if document.get("findings"):
        yield Statement(kind="fact", text=f"{server}: {document['findings']}", rows=_rows(document))


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
        _effect(claim) or None,
        _interval(claim) or None,
        claim.get("p"),
        claim.get("method"),
    )
