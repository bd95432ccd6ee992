"""What a reader must know before believing the rest: failures, flags, gaps."""

from collections.abc import Iterator

from specbench.report import cells, flags
from specbench.report.checklist import Item
from specbench.report.findings.failures import sentence
from specbench.report.glossary import TERMS
from specbench.report.inputs import Evidence
from specbench.report.statements import Section, Statement, Table, count, listed

WITHHOLDING = ("stamps_in_doubt", "counts_in_doubt")
MOST_WITHHELD = 5


def raised(evidence: Evidence) -> Section:
    """List every flag with its meaning, its rows and what to do."""
    names = cells.flags_of(evidence.trials["flags"])
    statements = []
    for name in names:
        rows = [
            str(trial)
            for trial, value in zip(
                evidence.trials["trial_id"], evidence.trials["flags"], strict=True
            )
            if name in cells.flags_of([value])
        ]
        advice = f" {_capital(flags.FLAGS[name].advice)}." if name in flags.FLAGS else ""
        statements.append(
            Statement(
                kind="flag",
                text=f"`{name}` on {len(rows)} of {count(len(evidence.trials), 'trial')}:"
                f" {flags.explain(name)}.{advice}",
                rows=tuple(rows),
                details=_withheld(evidence, name, rows),
            )
        )
    statements += list(_notices(evidence))
    told = [f"`{name}`" for name in names]
    short = f"{listed(told)}: what each means, and what to do." if told else ""
    return Section(anchor="flags", title="Flags raised", statements=tuple(statements), short=short)


def _withheld(evidence: Evidence, name: str, rows: list[str]) -> tuple[str, ...]:
    """Say of a few trials which figures are missing from them, where the flag takes some away."""
    if name not in WITHHOLDING or "in_doubt" not in evidence.trials.columns:
        return ()
    told = evidence.trials[evidence.trials["trial_id"].astype(str).isin(rows)]
    shown = told.head(MOST_WITHHELD)
    said = [f"{t}: {why}" for t, why in zip(shown["trial_id"], shown["in_doubt"], strict=True)]
    more = len(told) - len(said)
    return (*said, *([f"and {count(more, 'more trial')}: column `in_doubt`"] if more else []))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _notices(evidence: Evidence) -> Iterator[Statement]:
    heard: dict[str, list[str]] = {}
    for block_id, facts in evidence.blocks.items():
        for notice in facts.notices:
            heard.setdefault(notice, []).append(block_id)
    for notice, blocks in heard.items():
        yield Statement(
            kind="flag",
            text=f"{count(len(blocks), 'server')} ({listed(blocks)}) gave a notice:",
            rows=tuple(blocks),
            details=(notice,),
        )


def not_tested(evidence: Evidence, items: list[Item]) -> Section:
    """Say what was not looked at, so that silence is not read as agreement."""
    statements = [
        *_single_levels(evidence),
        *(
            Statement(kind="withheld", text=f"{sentence(_capital(gap))}")
            for document in evidence.verdicts
            for gap in document.not_tested
        ),
    ]
    blind = [item for item in items if item.answer.state == "cannot tell"]
    if blind:
        statements.append(
            Statement(
                kind="withheld",
                text=f"{count(len(blind), 'known mistake')} could not be ruled out for lack of"
                f" evidence: {listed([item.pitfall.id for item in blind], most=60)} (see the"
                " checklist).",
            )
        )
    return Section(
        anchor="not-tested",
        title="What was not tested",
        statements=tuple({one.text: one for one in statements}.values()),
        short=f"{count(len(statements), 'gap')} that no reader should take for agreement."
        if statements
        else "",
    )


def _single_levels(evidence: Evidence) -> Iterator[Statement]:
    held = cells.held(cells.usable(evidence.trials))
    if held:
        shown = [f"{name} {cells.show_level(level)}" for name, level in held.items()]
        yield Statement(
            kind="withheld",
            text=f"Only one level was measured of {listed(shown, most=12)}: nothing is said about"
            " others.",
        )


def words() -> Section:
    """Explain the words of verdicts where they are read."""
    table = Table(
        heads=("word", "meaning"),
        rows=tuple(TERMS.items()),
        caption="Words of this page; columns are explained in the reference of the trials table",
    )
    return Section(
        anchor="words", title="Words", tables=(table,),
        short=f"{len(TERMS)} words of verdicts, explained.",
    )  # fmt: skip


def checklist(items: list[Item]) -> Section:
    """Show of the reviewer's checklist what was found or could not be told; the rest is a line."""
    rank = {"found": 0, "cannot tell": 1, "excluded": 2}
    ordered = sorted(items, key=lambda item: rank[item.answer.state])
    found = [item for item in items if item.answer.state == "found"]
    open_ = [item for item in ordered if item.answer.state != "excluded"]
    ruled_out = [item.pitfall.id for item in ordered if item.answer.state == "excluded"]
    statements = [
        Statement(
            kind="flag",
            text=f"{item.pitfall.id}, {item.pitfall.mistake}: {sentence(item.answer.how)}",
            rows=item.answer.rows,
        )
        for item in found
    ]
    table = Table(
        heads=("id", "known mistake", "state", "how it was looked at"),
        rows=tuple(
            (item.pitfall.id, item.pitfall.mistake, item.answer.state, item.answer.how)
            for item in open_
        ),
        caption="Ways to be wrong about speculative decoding that were found here, or could not be"
        " judged",
        keys=tuple(f"pitfall-{item.pitfall.id}" for item in open_),
    )
    return Section(
        anchor="checklist",
        title="Reviewer's checklist",
        short=f"{len(items)} known mistakes were looked for: {count(len(found), 'was', 'were')}"
        f" found, {len(open_) - len(found)} could not be judged, {len(ruled_out)} were ruled out.",
        intro=f"Ruled out: {listed(ruled_out, most=60)}." if ruled_out else "",
        statements=tuple(statements),
        tables=(table,) if open_ else (),
    )
