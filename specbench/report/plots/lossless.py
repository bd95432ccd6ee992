"""The losslessness dashboard: each claim's effect with its interval and its verdict."""

from math import log10
from typing import Any

from matplotlib.axes import Axes

from specbench.report import theme
from specbench.report.evidence import Source, evidence_of
from specbench.report.findings.lossless import server_of

MARKS = {"holds": ("o", 3), "violated": ("X", 2), "inconclusive": ("D", 5)}


@theme.themed
def lossless(source: Source, axes: Axes | None = None) -> Axes:
    """Plot each claim: its evidence against losslessness, -log10 p, and its verdict by mark.

    Claims without a p value sit at 0. Effects and intervals are in the table beside the plot.
    """
    evidence = evidence_of(source)
    claims = [
        (server_of(document), claim)
        for document in evidence.verdicts
        for claim in document.get("claims", [])
    ]
    axes = axes or theme.new_axes(height=1.8 + 0.3 * min(len(claims), 30))
    shown = claims[:30]
    for verdict, (marker, colour) in MARKS.items():
        rows = [i for i, (_, claim) in enumerate(shown) if claim.get("verdict") == verdict]
        axes.plot(
            [_strength(shown[i][1]) for i in rows], rows, marker=marker, ls="", ms=8,
            color=theme.current().series[colour], label=verdict,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [_name(server, claim) for server, claim in shown])
    axes.set_ylim(-0.6, max(len(shown), 1) - 0.4)
    axes.invert_yaxis()
    axes.set_xlim(left=-0.3)
    axes.set_xlabel("evidence against losslessness (-log10 p; cut at 20)")
    theme.legend(axes)
    tokens = sum(int(claim.get("n_tokens") or 0) for _, claim in claims)
    theme.caption_axes(axes, f"n = {len(claims)} claims on {tokens:,} tokens.")
    return axes


def _name(server: str, claim: dict[str, Any]) -> str:
    at = f"T={claim.get('temperature')}, c={claim.get('concurrency')}"
    return f"{server}: {claim.get('name')}, {at}"


def _strength(claim: dict[str, Any]) -> float:
    p = claim.get("p")
    if p is None:
        return 0.0
    return 20.0 if p <= 1e-20 else min(20.0, -log10(p))
