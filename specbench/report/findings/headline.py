"""The first screen of a report: at most seven sentences that a reader must not miss."""

from collections.abc import Iterator

from specbench.backends.recorded import recorded_facts
from specbench.model.verdict import RecordedVerdict
from specbench.report import cells
from specbench.report.checklist import Item
from specbench.report.comparison.notes import why_of
from specbench.report.findings import violations
from specbench.report.findings.arms import command_of
from specbench.report.findings.lossless import KINDS
from specbench.report.findings.next_steps import next_step
from specbench.report.findings.speed import flags_on
from specbench.report.findings.violations import server_of
from specbench.report.greedy import Greedy, greedy_answers
from specbench.report.inputs import Evidence
from specbench.report.judged import arms_of, judged
from specbench.report.numbers import between, times
from specbench.report.speedups import SpeedUp
from specbench.report.statements import Section, Statement, count, listed

MAX_SERVERS = 2
MOST = 7
"""Sentences of the first screen; what is beyond them stands in the sections below."""


def section(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Section:
    """Answer what is lossless, faster and why, what is doubtful, what would decide the rest."""
    told = [
        *((0, one) for one in _modelled(evidence)),
        *((1, one) for one in _violated(evidence)),
        *((4, one) for one in _verdicts(evidence)),
        *_extremes(evidence, pairs, items),
        *((6, one) for one in _why(evidence)),
        *((2, one) for one in _doubts(evidence, items)),
        *((5, one) for one in next_step(evidence, pairs)),
    ]
    kept = sorted(range(len(told)), key=lambda place: told[place][0])[:MOST]
    return Section(
        anchor="headline",
        title="In short",
        statements=tuple(told[place][1] for place in sorted(kept)),
        plots=(first_picture(pairs),),
    )


def first_picture(pairs: list[SpeedUp]) -> str:
    """Name the one picture of the first screen: what is faster, else what was measured."""
    return "speedup" if any(pair.ratio is not None for pair in pairs) else "overview"


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
    """Say in one sentence what is known of losslessness beside violations."""
    names: dict[str, list[str]] = {}
    for document in evidence.verdicts:
        names.setdefault(document.verdict, []).append(server_of(document))
    greedy = greedy_answers(evidence)
    for verdict, text in (
        ("holds", "Lossless within the stated resolution: {}"),
        ("inconclusive", "Losslessness is not decided: {}"),
    ):
        if verdict in names:
            servers = list(dict.fromkeys(names[verdict]))
            proof = f" {_greedy_words(evidence, greedy)}" if greedy and verdict == "holds" else ""
            yield Statement(
                kind=KINDS.get(verdict, "withheld"),
                text=text.format(listed(servers))
                + f" (n = {count(len(names[verdict]), 'verdict')}; see Is it lossless?).{proof}",
            )
    if not evidence.verdicts:
        yield _untested(evidence, greedy)


def _untested(evidence: Evidence, greedy: list[Greedy]) -> Statement:
    """Say what the answers themselves show where no verdict was asked for."""
    if not greedy:
        return Statement(
            kind="withheld", text="Losslessness was not tested: speed alone is reported."
        )
    equal = all(one.equal == one.answers for one in greedy)
    drawn = bool((evidence.trials["temperature"] > 0).any())
    rest = " Above it losslessness was not tested: `specbench verify` tests it." if drawn else ""
    lead = "Lossless at temperature 0, as far as these prompts show: " if equal else ""
    return Statement(
        kind="fact" if equal else "flag",
        text=f"{lead}{_greedy_words(evidence, greedy)}{rest}",
        rows=tuple(row for one in greedy for row in (one.cells if equal else one.unequal)),
    )


def _greedy_words(evidence: Evidence, greedy: list[Greedy]) -> str:
    """Count the greedy answers that have the bytes of the control's."""
    arms = listed([one.arm for one in greedy])
    total, equal = sum(one.answers for one in greedy), sum(one.equal for one in greedy)
    prompts = max(one.prompts for one in greedy)
    same = f"{arms} gave the bytes of `{evidence.control}` in"
    if equal == total:
        return f"{same} all {total:,} greedy answers (n = {count(prompts, 'prompt')})."
    return (
        f"{same} {equal:,} of {total:,} greedy answers (n = {count(prompts, 'prompt')}): the others"
        " are near ties or a fault; `specbench verify` tells which."
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


def _extremes(
    evidence: Evidence, pairs: list[SpeedUp], items: list[Item]
) -> Iterator[tuple[int, Statement]]:
    sound = [pair for pair in pairs if not pair.lossy]
    decided = [pair for pair in sound if pair.decided and pair.ratio is not None]
    gains = [pair for pair in decided if (pair.ratio or 0) > 1]
    losses = [pair for pair in decided if (pair.ratio or 0) < 1]
    if gains:
        best = max(gains, key=lambda pair: pair.low or 0)
        words = f"Faster than `{evidence.control}` in {len(gains)}"
        yield 2, _extreme(evidence, best, words, len(sound), items)
    if losses:
        worst = min(losses, key=lambda pair: pair.high or 0)
        words = f"Slower than `{evidence.control}` in {len(losses)}"
        yield 3, _extreme(evidence, worst, words, len(sound), items)
    lossy = [pair for pair in pairs if pair.lossy]
    if lossy:
        yield (
            3,
            Statement(
                kind="withheld",
                text=f"The speeds of {count(len(lossy), 'cell')} rank nowhere, because the output"
                f" is not lossless: {listed([pair.label for pair in lossy], most=3)}.",
                rows=tuple(pair.cell_id for pair in lossy),
            ),
        )
    if sound and not decided:
        yield (
            3,
            Statement(
                kind="withheld",
                text="No arm is said to be faster or slower: none of"
                f" {count(len(sound), 'comparison')} without flags excludes a ratio of 1.",
                rows=tuple(pair.cell_id for pair in sound),
            ),
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
        command=command_of(evidence, evidence.control, str(pair.levels["algorithm"])),
    )


def _why(evidence: Evidence) -> Iterator[Statement]:
    """Say of each arm what its speed is made of, over all of its cells."""
    told = []
    for arm in arms_of(evidence):
        found = judged(evidence, evidence.control, arm) if arm != evidence.control else None
        made_of = why_of(found).removeprefix("why: ") if found is not None else ""
        told += [f"{arm}: {made_of}"] if made_of else []
    if told:
        yield Statement(
            kind="fact",
            text=f"Why, against `{evidence.control}`: {'; '.join(told[:3])} (see Where the speed"
            " comes from).",
        )


def _doubts(evidence: Evidence, items: list[Item]) -> Iterator[Statement]:
    """Say in one sentence what failed, which flags were raised and which mistakes were found."""
    trials = evidence.trials
    failed = trials[trials["status"] != "ok"]
    parts = []
    if len(failed):
        parts.append(f"{count(len(failed), 'trial')} of {len(trials)} failed (see What failed)")
    raised = [cells.flags_of([value]) for value in trials["flags"]]
    names = list(dict.fromkeys(name for own in raised for name in own))
    told = [f"`{name}` on {sum(name in own for own in raised)}" for name in names]
    if told:
        parts.append(f"{listed(told, most=3)} of {count(len(trials), 'trial')}")
    found = [item for item in items if item.answer.state == "found"]
    if found:
        parts.append(
            f"{count(len(found), 'known mistake')} of {len(items)} on the reviewer's checklist"
            f" {'was' if len(found) == 1 else 'were'} found:"
            f" {listed([item.pitfall.id for item in found], most=20)} (see the checklist)"
        )
    if parts:
        yield Statement(
            kind="failure" if len(failed) else "flag",
            text=f"Doubtful: {'; '.join(parts)}.",
            rows=tuple(str(value) for value in failed["trial_id"]),
        )
