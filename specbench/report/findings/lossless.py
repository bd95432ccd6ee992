"""What the verdicts say about losslessness: claims in their resolution, or what is missing."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from specbench.model.verdict import Claim, RecordedVerdict
from specbench.report.cells import plain
from specbench.report.findings import violations
from specbench.report.findings.violations import server_of
from specbench.report.greedy import greedy_answers
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
        rows.extend(_claim_row(document, claim) for claim in document.claims)
    if not evidence.verdicts:
        statements.append(
            Statement(
                kind="withheld",
                text="Losslessness was not tested in this recording: there is no verdict, so the"
                " speeds below say nothing about whether the output is right."
                " `specbench verify` tests it.",
            )
        )
    statements += list(_greedy(evidence))
    table = Table(
        heads=("server", "claim", "verdict", "temperature", "concurrency", "tokens",
               "effects (the deciding one first)", "p", "method", "note"),
        rows=tuple(rows),
        caption="Claims of the losslessness verdicts; each interval stands beside its effect",
    )  # fmt: skip
    return Section(
        anchor="lossless",
        title="Is it lossless?",
        statements=tuple(statements),
        tables=(table,) if rows else (),
        plots=("lossless",) if rows else (),
        short=_short(evidence),
    )


def _short(evidence: Evidence) -> str:
    """Count the verdicts, or the greedy answers where no verdict was asked for."""
    counts = Counter(WORDS.get(one.verdict, one.verdict) for one in evidence.verdicts)
    if counts:
        told = listed([f"{number} {word}" for word, number in counts.items()])
        return f"{count(len(evidence.verdicts), 'verdict')}: {told}."
    equal = [one for one in greedy_answers(evidence) if one.equal == one.answers]
    if equal:
        answers = sum(one.answers for one in equal)
        return f"No verdict; {answers:,} greedy answers are the control's, byte for byte."
    return "No verdict was asked for."


def _greedy(evidence: Evidence) -> Iterator[Statement]:
    """Say of each arm how many greedy answers have the bytes of the control's."""
    for one in greedy_answers(evidence):
        same = one.equal == one.answers
        rest = "" if same else ": the others are near ties or a fault, which a verdict tells"
        yield Statement(
            kind="fact" if same else "flag",
            text=f"{one.arm}: {one.equal:,} of {one.answers:,} greedy answers have the bytes of an"
            f" answer of `{evidence.control}` to the same prompt"
            f" (n = {count(one.prompts, 'prompt')}){rest}.",
            rows=one.unequal or one.cells,
        )


def _rows(document: RecordedVerdict) -> tuple[str, ...]:
    return tuple(one for one in (document.trial_id, document.block_id) if one)


def _of_document(document: RecordedVerdict, evidence: Evidence) -> Iterator[Statement]:
    server, verdict = server_of(document), document.verdict
    claims = document.claims
    tokens = sum(claim.n_tokens for claim in claims)
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
        if claim.verdict == "violated":
            yield Statement(
                kind="flag" if claim.known_gap else "violated",
                text=_violation(server, claim),
                rows=_rows(document),
            )
    yield from witnesses[1:]
    for finding in document.integrity:
        yield Statement(
            kind="flag",
            text=f"{server}: {finding.name}: {finding.finding}",
            rows=_rows(document),
        )
    for note in document.notes:
        yield Statement(kind="fact", text=f"{server}: {note}", rows=_rows(document))
    if verdict == "inconclusive":
        yield Statement(kind="withheld", text=_needed(server, document), rows=_rows(document))


def _causes(server: str, document: RecordedVerdict, evidence: Evidence) -> Iterator[Statement]:
    """Say what the pattern points to, and what the other arms of the run add to it."""
    chain = violations.clean_chain(document, evidence)
    if chain is not None:
        yield Statement(
            kind="violated",
            text=f"{server} verifies trees and is violated, {server_of(chain)} verifies chains of"
            " the same drafter and holds in the same run: a fault of the drafter, of positions or"
            " of the commit of a chain would show in both. What only a tree has is"
            f" {violations.TREE_CAUSE}. Suspects that say so stand first.",
            rows=(*_rows(document), *_rows(chain)),
        )
    suspects = violations.suspects_of(document, evidence)
    if suspects:
        yield Statement(
            kind="fact",
            text=f"{server}: the pattern points to {suspects[0].text}."
            + (" Further suspects, most likely first:" if len(suspects) > 1 else ""),
            rows=_rows(document),
            details=tuple(one.text for one in suspects[1:]),
        )


def _witnesses(server: str, document: RecordedVerdict) -> Iterator[Statement]:
    witnesses = document.witnesses
    for number, witness in enumerate(witnesses[:MAX_WITNESSES], 1):
        yield Statement(
            kind="fact",
            text=f"{server}: reproduced wrong token {number} of {len(witnesses)}: the server"
            f" emitted token {witness.token} at position {witness.position}, where"
            f" the target's own first choice is {witness.target_argmax},"
            f" {show(witness.margin_nat)} nat above it. The command asks for one token"
            f" after the same tokens: it shows the target's choice,"
            f" {witness.target_argmax}. The server must be running (see How to see it"
            " again).",
            rows=_rows(document),
            details=(witness.curl,),
        )


def _violation(server: str, claim: Claim) -> str:
    effects, note = violations.effects_of(claim), claim.note
    p = f", p = {claim.p:.1e}" if claim.p is not None else ""
    gap = f" A documented upstream behaviour: {claim.known_gap}." if claim.known_gap else ""
    temperature = plain(claim.temperature)
    at = [f"temperature {temperature}"] if temperature is not None else []
    at.append(f"concurrency {claim.concurrency}")
    again = claim.ground == "witness"
    sure = " The tokens that came again decide; the share is an estimate."
    return (
        f"{server}: `{claim.name}` is violated at {', '.join(at)}:"
        f" {effects or note or 'no effect was recorded'}{p}"
        f" (n = {claim.n_tokens:,} tokens, {claim.method})."
        f"{f' {note}.' if effects and note else ''}"
        f"{sure if effects and again else ''}{gap}"
    )


def _resolution(document: RecordedVerdict) -> str:
    told = [
        RESOLUTION[name].format(show(value))
        for name, value in document.resolution.items()
        if name in RESOLUTION and value is not None
    ]
    return f"; smallest effects that would have been seen: {listed(told)}" if told else ""


def _needed(server: str, document: RecordedVerdict) -> str:
    cost = [f"{show(plain(value))} {name}" for name, value in document.needed.items() if value]
    return (
        f"{server}: a decision needs about {listed(cost)} more."
        if cost
        else (f"{server}: the evidence does not decide, and what more would decide was not stated.")
    )


def _claim_row(document: RecordedVerdict, claim: Claim) -> tuple[Any, ...]:
    return (
        server_of(document),
        claim.name,
        claim.verdict,
        plain(claim.temperature),
        claim.concurrency,
        claim.n_tokens,
        violations.effects_of(claim) or None,
        claim.p,
        claim.method,
        "; ".join(text for text in (claim.note, claim.known_gap) if text) or None,
    )
