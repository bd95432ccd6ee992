"""What a reader must know before believing the rest: failures, flags, gaps."""

from collections.abc import Iterator

from specbench.report import cells, flags
from specbench.report.checklist import Item
from specbench.report.failures import block_failures, invalid_cells
from specbench.report.glossary import TERMS
from specbench.report.inputs import Evidence
from specbench.report.statements import Section, Statement, Table, count, listed

WITHHOLDING = ("stamps_in_doubt", "counts_in_doubt")
MOST_WITHHELD = 5


def failures(evidence: Evidence) -> Section:
    """Tell what failed, with the diagnosis, the log's last lines and what to do."""
    statements = [
        *(
            Statement(
                kind="failure",
                text=f"The launch of block {one.block_id} failed: {_sentence(one.cause)}"
                + (f" What to do: {_sentence(one.hint)}" if one.hint else ""),
                rows=(one.block_id,),
                details=one.evidence,
            )
            for one in block_failures(evidence)
        ),
        *_failed_trials(evidence),
        *_failed_requests(evidence),
        *(
            Statement(
                kind="fact",
                text=f"Cell {cell.label} was not run, because no server can run it: {cell.reason}.",
                rows=(cell.cell_id,),
            )
            for cell in invalid_cells(evidence)
        ),
    ]
    if not statements:
        statements = [Statement(kind="fact", text="No launch, no trial and no request failed.")]
    return Section(anchor="failures", title="What failed", statements=tuple(statements))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _failed_trials(evidence: Evidence) -> Iterator[Statement]:
    trials = evidence.trials
    failed = trials[trials["status"] != "ok"]
    for reason in dict.fromkeys(str(value) for value in failed["reason"]):
        mine = failed[failed["reason"].astype(str) == reason]
        yield Statement(
            kind="failure",
            text=f"{count(len(mine), 'trial')} of {len(trials)} failed:"
            f" {_sentence(reason if reason not in {'', 'nan', 'None'} else 'no reason recorded')}",
            rows=tuple(str(value) for value in mine["trial_id"]),
        )


def _failed_requests(evidence: Evidence) -> Iterator[Statement]:
    requests = evidence.requests
    if requests.empty:
        return
    bad = requests[(requests["phase"] == "measured") & (requests["status"] != "ok")]
    for reason in dict.fromkeys(str(value) for value in bad["reason"]):
        rows = bad[bad["reason"] == reason]
        trials = sorted({str(value) for value in rows["trial_id"]})
        yield Statement(
            kind="failure",
            text=f"{count(len(rows), 'measured request')} failed with"
            f" `{reason or 'no reason'}` on {count(len(trials), 'trial')}.",
            rows=tuple(trials),
        )


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
                kind="doubt",
                text=f"`{name}` on {len(rows)} of {count(len(evidence.trials), 'trial')}:"
                f" {flags.explain(name)}.{advice}",
                rows=tuple(rows),
                details=_withheld(evidence, name, rows),
            )
        )
    statements += list(_notices(evidence))
    if not statements:
        statements = [Statement(kind="fact", text="No flag was raised on any trial.")]
    return Section(anchor="flags", title="Doubts raised", statements=tuple(statements))


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
        for notice in facts.get("notices") or ():
            heard.setdefault(str(notice), []).append(block_id)
    for notice, blocks in heard.items():
        yield Statement(
            kind="doubt",
            text=f"{count(len(blocks), 'server')} ({listed(blocks)}) gave a notice:",
            rows=tuple(blocks),
            details=(notice,),
        )


def not_tested(evidence: Evidence, items: list[Item]) -> Section:
    """Say what was not looked at, so that silence is not read as agreement."""
    statements = [
        *_single_levels(evidence),
        *(
            Statement(kind="withheld", text=f"{_sentence(_capital(str(gap)))}")
            for document in evidence.verdicts
            for gap in document.get("not_tested") or ()
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
    return Section(anchor="words", title="Words", tables=(table,))


def checklist(items: list[Item]) -> Section:
    """Show the reviewer's checklist as a table, what was found first."""
    rank = {"found": 0, "cannot tell": 1, "excluded": 2}
    ordered = sorted(items, key=lambda item: rank[item.answer.state])
    found = [item for item in items if item.answer.state == "found"]
    statements = [
        Statement(
            kind="doubt",
            text=f"{item.pitfall.id}, {item.pitfall.mistake}: {_sentence(item.answer.how)}",
            rows=item.answer.rows,
        )
        for item in found
    ]
    table = Table(
        heads=("id", "known mistake", "state", "how it was looked at"),
        rows=tuple(
            (item.pitfall.id, item.pitfall.mistake, item.answer.state, item.answer.how)
            for item in ordered
        ),
        caption="Ways to be wrong about speculative decoding, and what was seen of each here",
        keys=tuple(f"pitfall-{item.pitfall.id}" for item in ordered),
    )
    return Section(
        anchor="checklist",
        title="Reviewer's checklist",
        intro=f"{len(items)} known mistakes were looked for: {count(len(found), 'was', 'were')}"
        f" found, {sum(i.answer.state == 'cannot tell' for i in items)} could not be judged.",
        statements=tuple(statements),
        tables=(table,),
    )
