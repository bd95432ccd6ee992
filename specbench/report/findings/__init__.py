"""Findings: every sentence made from tables, or withheld because the evidence is not there."""

from specbench.report.checklist import review
from specbench.report.findings import (
    acceptance,
    arms,
    failures,
    flagged,
    headline,
    lossless,
    reproduce,
    speed,
    texts,
)
from specbench.report.inputs import Evidence
from specbench.report.speedups import speed_ups
from specbench.report.statements import Findings, Section

__all__ = ["compose"]


def compose(evidence: Evidence) -> Findings:
    """Write the findings of one recording, headline first."""
    pairs = speed_ups(evidence)
    items = review(evidence, pairs)
    sections = (
        headline.section(evidence, pairs, items),
        arms.section(evidence),
        lossless.section(evidence),
        speed.section(evidence, pairs, items),
        speed.decomposition(evidence, pairs, items),
        acceptance.section(evidence),
        texts.section(evidence),
        speed.capacity(evidence),
        failures.section(evidence),
        flagged.raised(evidence),
        flagged.not_tested(evidence, items),
        reproduce.section(evidence),
        flagged.checklist(items),
        flagged.words(),
    )
    return Findings(
        title=evidence.manifest.name or evidence.name,
        created_at=evidence.manifest.created_at,
        sections=tuple(one for one in sections if _says_something(one)),
    )


def _says_something(section: Section) -> bool:
    """Whether a section has more than a title."""
    told = section.statements or section.tables
    return bool(told or (section.short and (section.plots or section.intro)))
