"""The first lines of a report: the fewest sentences that a reader must not miss."""

from collections.abc import Iterator

from specbench.backends.recorded import recorded_facts
from specbench.model.verdict import RecordedVerdict
from specbench.report.checklist import Item
from specbench.report.findings import violations
from specbench.report.findings.lossless import KINDS
from specbench.report.findings.speed import flags_on
from specbench.report.findings.violations import server_of
from specbench.report.inputs import Evidence
from specbench.report.numbers import between, times
from specbench.report.speedups import SpeedUp
from specbench.report.statements import Section, Statement, count, listed

MAX_SERVERS = 4


def section(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Section:
    """Give verdicts, the largest gain and loss, failures and flags, in that order."""
    return Section(
        anchor="headline",
        title="In short",
        statements=(
            *_modelled(evidence),
            *_verdicts(evidence),
            *_extremes(evidence, pairs, items),
            *_failed(evidence),
            *_flags(items),
        ),
    )


def _modelled(evidence: Evidence) -> Iterator[Statement]:
    """Say first that a clock was modelled, before anybody takes a speed for a GPU's."""
    facts = {block: recorded_facts(said) for block, said in evidence.blocks.items()}
    engines = {block: said for block, said in facts.items() if said.reference_engine}
    if not engines:
        return
    gpus = sorted({said.modelled_gpu for said in engines.values() if said.modelled_gpu})
    faults = sorted({fault for said in engines.values() for fault in said.faults})
    every = "Every server" if len(engines) == len(evidence.blocks) else "Some servers"
    yield Statement(
        kind="flag",
        text=f"{every} of this run was specbench's embedded engine: tokens and acceptance are real,"
        f" but the hardware clock is modelled ({listed(gpus) or 'GPU not said'}), so no speed here"
        " is that of a GPU."
        + (f" A fault was switched on by its launch flags: {listed(faults)}." if faults else ""),
        rows=tuple(engines),
    )


def _verdicts(evidence: Evidence) -> Iterator[Statement]:
    names: dict[str, list[str]] = {}
    for document in evidence.verdicts:
        names.setdefault(document.verdict, []).append(server_of(document))
    yield from _violated(evidence)
    for verdict, text in (
        ("holds", "Lossless within the stated resolution: {}"),
        ("inconclusive", "Losslessness is not decided: {}"),
    ):
        if verdict in names:
            servers = list(dict.fromkeys(names[verdict]))
            yield Statement(
                kind=KINDS.get(verdict, "withheld"),
                text=text.format(listed(servers))
                + f" (n = {count(len(names[verdict]), 'verdict')}; see Is it lossless?).",
            )
    if not evidence.verdicts:
        yield Statement(
            kind="withheld", text="Losslessness was not tested: speed alone is reported."
        )


def _violated(evidence: Evidence) -> Iterator[Statement]:
    """Give one sentence a server that is not lossless: how much, where, and the first suspect."""
    servers: dict[str, list[RecordedVerdict]] = {}
    for document in evidence.verdicts:
        if document.verdict == "violated":
            servers.setdefault(server_of(document), []).append(document)
    for name, documents in list(servers.items())[:MAX_SERVERS]:
        first = documents[0]
        chain = violations.clean_chain(first, evidence)
        cause = violations.first_suspect(first, evidence)
        yield Statement(
            kind="violated",
            text=f"Not lossless: {name}: {violations.sizes_of(first)}"
            + (f"; the chain arm of the same run, {server_of(chain)}, holds" if chain else "")
            + (f"; first suspect: {cause}" if cause else "")
            + f" (n = {count(len(documents), 'verdict')}; see Is it lossless?).",
            rows=tuple(one.block_id for one in documents if one.block_id),
        )
    if len(servers) > MAX_SERVERS:
        yield Statement(
            kind="violated",
            text=f"Not lossless either: {listed(list(servers)[MAX_SERVERS:])}.",
        )


def _extremes(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Iterator[Statement]:
    sound = [pair for pair in pairs if not pair.lossy]
    decided = [pair for pair in sound if pair.decided and pair.ratio is not None]
    gains = [pair for pair in decided if (pair.ratio or 0) > 1]
    losses = [pair for pair in decided if (pair.ratio or 0) < 1]
    if gains:
        best = max(gains, key=lambda pair: pair.low or 0)
        words = f"Faster than `{evidence.control}` in {len(gains)}"
        yield _extreme(evidence, best, words, len(sound), items)
    if losses:
        worst = min(losses, key=lambda pair: pair.high or 0)
        words = f"Slower than `{evidence.control}` in {len(losses)}"
        yield _extreme(evidence, worst, words, len(sound), items)
    lossy = [pair for pair in pairs if pair.lossy]
    if lossy:
        yield Statement(
            kind="withheld",
            text=f"The speeds of {count(len(lossy), 'cell')} rank nowhere, because the output is"
            f" not lossless: {listed([pair.label for pair in lossy], most=3)}.",
            rows=tuple(pair.cell_id for pair in lossy),
        )
    if sound and not decided:
        yield Statement(
            kind="withheld",
            text=f"No arm is said to be faster or slower: none of {count(len(sound), 'comparison')}"
            " without flags excludes a ratio of 1.",
            rows=tuple(pair.cell_id for pair in sound),
        )


def _extreme(
    evidence: Evidence, pair: SpeedUp, words: str, of: int, items: list[Item]
) -> Statement:
    return Statement(
        kind="claim",
        text=f"{words} of {count(of, 'comparison')}; the clearest is {pair.label}:"
        f" {times(pair.ratio)}, 95 % interval {between(pair.low or 0, pair.high or 0)}"
        f" (n = {count(pair.n_trials, 'trial')} in"
        f" {count(pair.n_launches, 'launch', 'launches')}{flags_on(evidence, [pair], items)}).",
        rows=(pair.cell_id, str(pair.control_id)),
    )


def _failed(evidence: Evidence) -> Iterator[Statement]:
    failed = evidence.trials[evidence.trials["status"] != "ok"]
    if len(failed):
        yield Statement(
            kind="failure",
            text=f"{count(len(failed), 'trial')} of {len(evidence.trials)} failed"
            " (see What failed).",
            rows=tuple(str(value) for value in failed["trial_id"]),
        )


def _flags(items: list[Item]) -> Iterator[Statement]:
    found = [item for item in items if item.answer.state == "found"]
    if found:
        yield Statement(
            kind="flag",
            text=f"{count(len(found), 'known mistake')} of {len(items)} on the reviewer's checklist"
            f" {'was' if len(found) == 1 else 'were'} found:"
            f" {listed([item.pitfall.id for item in found], most=20)} (see the checklist).",
        )
