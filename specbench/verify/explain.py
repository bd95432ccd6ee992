"""The findings text: what a maintainer needs to accept or to contest a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from specbench.backends.recorded import shown_in_a_line
from specbench.model.verdict import Claim, VerdictDocument, Witness
from specbench.verify.levels import LEVELS, Level

_LINE = {
    "holds": "LOSSLESS",
    "violated": "NOT LOSSLESS",
    "inconclusive": "INCONCLUSIVE",
}


def write_findings(document: VerdictDocument) -> str:
    """Return Markdown: verdict with its resolution, claims, witnesses, suspects, what is open."""
    parts = [
        _headline(document),
        _server_line(document),
        _evidence(document),
        _bullets("Notes", document.notes),
        _bullets("What convicts", _convictions(document.claims)),
        _claims(document.claims),
        _bullets("Suspects, most likely first", [one.text for one in document.suspects]),
        _witnesses(document.witnesses),
        _bullets("Integrity", [f"{i.name}: {i.finding}" for i in document.integrity]),
        _needed(document),
        _bullets("Not tested", document.not_tested),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(document: VerdictDocument) -> str:
    verdict, odd = _LINE[document.verdict], _integrity(document)
    if document.verdict == "holds":
        return f"**{verdict}{odd}** {_resolution(document)}{_exceptions(document.claims)}"
    return f"**{verdict}{odd}**: {document.reason}"


def _integrity(document: VerdictDocument) -> str:
    """Name what does not add up in the headline itself: nobody reads on after a good verdict."""
    if not document.integrity:
        return ""
    first, *others = document.integrity
    more = f", and {len(others)} more" if others else ""
    link = "AND" if document.verdict == "violated" else "BUT"
    return f", {link} {first.finding}{more}"


def _exceptions(claims: Sequence[Claim]) -> str:
    """Say what a known upstream gap excepts from the verdict."""
    gaps = [c.known_gap for c in claims if c.known_gap and c.verdict == "violated"]
    return f" Except, as known upstream: {'; '.join(gaps)}." if gaps else ""


def _resolution(document: VerdictDocument) -> str:
    seen = document.resolution
    parts = [
        f"to {seen[key]:.2g} % {what}"
        for key, what in (
            ("t_eff_pct", "in temperature"),
            ("excess_greedy_pct", "excess greedy tokens"),
            ("garbage_pct", "wrong tokens"),
        )
        if seen.get(key) is not None
    ]
    stats = document.stats
    places = [c.concurrency for c in document.claims if c.concurrency]
    relative = "" if document.reference else ", relative to this server's own prefill"
    by = {"draws": " by draws", "one_token_scores": " by one-token scores"}.get(document.evidence)
    return (
        f"{', '.join(parts)}{by or ''}; {_tokens(stats)}, "
        f"{stats.get('scored_tokens', 0)} scored, concurrency {min(places, default=0)} to "
        f"{max(places, default=0)}{relative}."
    )


def _tokens(stats: Mapping[str, Any]) -> str:
    if stats.get("recorded_tokens"):
        return f"{stats['recorded_tokens']} recorded tokens"
    return f"{stats.get('generated_tokens', 0)} tokens generated"


def _server_line(document: VerdictDocument) -> str:
    facts = shown_in_a_line(document.server)
    mean = document.stats.get("accept_len")
    if mean is not None:
        facts.append(f"accept_len {mean}")
    return "Server: " + ", ".join(facts) + "." if facts else ""


def _evidence(document: VerdictDocument) -> str:
    """Name the level of evidence and what each lack costs; full scores need no words."""
    level = cast("Level", document.evidence)
    if not document.evidence or (level == "scores" and not document.costs):
        return ""
    return _bullets(f"Evidence by {level.replace('_', ' ')} ({LEVELS[level]})", document.costs)


def _convictions(claims: Sequence[Claim]) -> list[str]:
    """Return what is wrong in each violated claim, in words, for readers of no statistics."""
    return [
        f"{c.name}: {c.finding}"
        + (f" (known upstream: {c.known_gap})" if c.known_gap else "")
        + (f". Shown again by the counts of:\n\n      {_cut(c.shows, 1200)}\n" if c.shows else "")
        for c in claims
        if c.verdict == "violated" and c.finding
    ]


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    rows = [
        "| claim | verdict | tokens | concurrency | smallest p | effects, % | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in claims:
        effects = ", ".join(f"{k.removesuffix('_pct')} {v:+.3g}" for k, v in c.effect.items())
        note = f"{c.note} (known upstream gap: {c.known_gap})" if c.known_gap else c.note
        cells = (
            c.name,
            c.verdict,
            str(c.n_tokens),
            _concurrency(c),
            "" if c.p is None else f"{c.p:.1e}",
            effects,
            note,
        )
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(rows)


def _concurrency(claim: Claim) -> str:
    if claim.concurrency_effective is None:
        return str(claim.concurrency)
    return f"{claim.concurrency} ({claim.concurrency_effective} seen)"


def _witnesses(witnesses: Sequence[Witness]) -> str:
    if not witnesses:
        return ""
    shown = [
        f"- {w.stage}: output position {w.position} of a prompt of {len(w.prompt_ids)} tokens: "
        f"token {w.token} was emitted, the target's own choice is {w.target_argmax}, "
        f"{w.margin_nat:.1f} nat above it.{_again(w)} See the target's choice:\n\n"
        f"      {_cut(w.curl)}"
        for w in witnesses[:5]
    ]
    more = [f"- and {len(witnesses) - 5} more in the JSON document"] if len(witnesses) > 5 else []
    return "\n".join(["Witnesses (each confirmed afresh):", *shown, *more])


def _again(witness: Witness) -> str:
    if not witness.shows:
        return ""
    # A sampling kernel draws: it need not give the same wrong token twice.
    said = "it, or another wrong one" if witness.stage == "K1" else "the wrong token"
    return f" Ask for {said} again:\n\n      {_cut(witness.shows)}\n\n "


def _cut(command: str, limit: int = 600) -> str:
    return command if len(command) <= limit else command[:limit] + " ... (whole in the JSON)"


def _needed(document: VerdictDocument) -> str:
    tokens = document.needed.get("tokens") or 0
    if document.verdict != "inconclusive" or not tokens:
        return ""
    minutes = document.needed.get("minutes") or 0
    return f"Still needed: about {tokens:.0f} tokens, {minutes:.1f} minutes at this server's speed."


def _bullets(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"- {line}" for line in lines)]) if lines else ""
