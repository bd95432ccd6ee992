"""The losslessness dashboard: each claim's effect with its interval and its verdict."""

import re
from math import log10

from matplotlib.axes import Axes

from specbench.model.verdict import Claim
from specbench.report import theme
from specbench.report.cells import plain
from specbench.report.findings.violations import by_tokens, effects_of, server_of
from specbench.report.inputs import Source, evidence_of

EDGE = 20.0
"""-log10 p at which the axis ends."""

MARKS = {"holds": ("o", 3), "violated": ("X", 2), "inconclusive": ("D", 5)}


@theme.themed
def lossless(source: Source, axes: Axes | None = None) -> Axes:
    """Plot each claim: its evidence against losslessness, -log10 p, and its verdict by mark.

    A violated claim that wrong tokens decided, and no p value, stands at the right edge; its
    effects are written beside it. Other claims without a p value sit at 0.
    """
    evidence = evidence_of(source)
    claims = [
        (server_of(document), claim) for document in evidence.verdicts for claim in document.claims
    ]
    shown = claims[:30]
    given, axes = axes, axes or theme.new_axes(8.2, 1.2 + 0.26 * max(2, len(shown)))
    for verdict, (marker, colour) in MARKS.items():
        rows = [i for i, (_, claim) in enumerate(shown) if claim.verdict == verdict]
        axes.plot(
            [_strength(shown[i][1]) for i in rows], rows, marker=marker, ls="", ms=8,
            color=theme.current().series[colour], label=verdict,
        )  # fmt: skip
    for row, (_, claim) in enumerate(shown):
        if claim.verdict == "violated":
            axes.annotate(
                _told(claim), (_strength(claim), row),
                (-9, 0), textcoords="offset points", ha="right", va="center", fontsize=8,
            )  # fmt: skip
    axes.set_yticks(range(len(shown)), [_name(server, claim) for server, claim in shown])
    axes.set_ylim(-0.6, max(len(shown), 1) - 0.4)
    axes.invert_yaxis()
    axes.set_xlim(left=-0.3, right=EDGE + 0.8)
    axes.set_xlabel("evidence against losslessness (-log10 p; cut at 20)")
    tokens = sum(claim.n_tokens for _, claim in claims)
    told = f"n = {len(claims)} claims on {tokens:,} tokens"
    edge = "; at the right edge also what wrong tokens decide, without a p value"
    decided = any(c.verdict == "violated" and by_tokens(c) for _, c in shown)
    return theme.finish(axes, given, f"{told}{edge if decided else ''}.")


def _name(server: str, claim: Claim) -> str:
    name, temperature = claim.name, plain(claim.temperature)
    at = [f"T={temperature}"] if temperature is not None and "T=" not in name else []
    if "concurrency" not in name:
        at.append(f"c={claim.concurrency}")
    return ", ".join([f"{server}: {name}", *at])


def _told(claim: Claim) -> str:
    """Give the deciding effect, else the count of wrong tokens, short enough for a plot."""
    if claim.known_gap:
        return "known upstream gap"
    counted = re.search(r"\d+ of \d+ tokens", claim.note)
    return effects_of(claim).split(",", 1)[0].split(";", 1)[0] or (counted[0] if counted else "")


def _strength(claim: Claim) -> float:
    if claim.verdict == "violated" and by_tokens(claim):
        return EDGE
    p = claim.p
    if p is None:
        return 0.0
    return EDGE if p <= 10**-EDGE else min(EDGE, -log10(p))
