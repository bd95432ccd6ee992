"""The first lines of a report: the fewest sentences that a reader must not miss."""

from collections.abc import Iterator

from specbench.report.checklist import Item
from specbench.report.evidence import Evidence
from specbench.report.findings.lossless import KINDS, server_of
from specbench.report.numbers import between, times
from specbench.report.speedups import SpeedUp
from specbench.report.statements import Section, Statement, count, listed


def section(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Section:
    """Give verdicts, the largest gain and loss, failures and doubts, in that order."""
    return Section(
        anchor="headline",
        title="In short",
        statements=(
            *_verdicts(evidence),
            *_extremes(evidence, pairs),
            *_failed(evidence),
            *_doubts(items),
        ),
    )


def _verdicts(evidence: Evidence) -> Iterator[Statement]:
    names: dict[str, list[str]] = {}
    for document in evidence.verdicts:
        names.setdefault(str(document.get("verdict")), []).append(server_of(document))
    for verdict, text in (
        ("violated", "Not lossless: {}."),
        ("holds", "Lossless within the stated resolution: {}."),
        ("inconclusive", "Losslessness is not decided: {}."),
    ):
        if verdict in names:
            servers = list(dict.fromkeys(names[verdict]))
            yield Statement(
                kind=KINDS.get(verdict, "withheld"),
                text=text.format(listed(servers))
                + f" (n = {count(len(names[verdict]), 'verdict')}; see Is it lossless?)",
            )
    if not evidence.verdicts:
        yield Statement(
            kind="withheld", text="Losslessness was not tested: speed alone is reported."
        )


def _extremes(evidence: Evidence, pairs: list[SpeedUp]) -> Iterator[Statement]:
    decided = [pair for pair in pairs if pair.decided and pair.ratio is not None]
    gains = [pair for pair in decided if (pair.ratio or 0) > 1]
    losses = [pair for pair in decided if (pair.ratio or 0) < 1]
    if gains:
        best = max(gains, key=lambda pair: (not _violated(evidence, pair), pair.low or 0))
        yield _extreme(evidence, best, f"Faster than `{evidence.control}`", len(gains), len(pairs))
    if losses:
        worst = min(losses, key=lambda pair: pair.high or 0)
        yield _extreme(
            evidence, worst, f"Slower than `{evidence.control}`", len(losses), len(pairs)
        )
    if pairs and not decided:
        yield Statement(
            kind="withheld",
            text=f"No arm is said to be faster or slower: none of {count(len(pairs), 'comparison')}"
            " excludes a ratio of 1.",
            rows=tuple(pair.cell_id for pair in pairs),
        )


def _extreme(evidence: Evidence, pair: SpeedUp, words: str, n: int, of: int) -> Statement:
    caution = " Its output is not lossless." if _violated(evidence, pair) else ""
    return Statement(
        kind="claim",
        text=f"{words} in {n} of {count(of, 'comparison')}; the clearest is {pair.label}:"
        f" {times(pair.ratio)}, 95 % interval {between(pair.low or 0, pair.high or 0)}"
        f" (n = {count(pair.n_trials, 'trial')} in"
        f" {count(pair.n_launches, 'launch', 'launches')}).{caution}",
        rows=(pair.cell_id, str(pair.control_id)),
    )


def _violated(evidence: Evidence, pair: SpeedUp) -> bool:
    verdicts = evidence.trials[evidence.trials["cell_id"] == pair.cell_id]["lossless"]
    return bool((verdicts == "violated").any())


def _failed(evidence: Evidence) -> Iterator[Statement]:
    failed = evidence.trials[evidence.trials["status"] != "ok"]
    if len(failed):
        yield Statement(
            kind="failure",
            text=f"{count(len(failed), 'trial')} of {len(evidence.trials)} failed"
            " (see What failed).",
            rows=tuple(str(value) for value in failed["trial_id"]),
        )


def _doubts(items: list[Item]) -> Iterator[Statement]:
    found = [item for item in items if item.answer.state == "found"]
    if found:
        yield Statement(
            kind="doubt",
            text=f"{count(len(found), 'known mistake')} of {len(items)} on the reviewer's checklist"
            f" {'was' if len(found) == 1 else 'were'} found:"
            f" {listed([item.pitfall.id for item in found], most=20)} (see the checklist).",
        )
