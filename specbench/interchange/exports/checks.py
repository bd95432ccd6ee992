"""What a pipeline shows of a recording: JUnit XML, and a comment in Markdown."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specbench.interchange.exports.trials import is_blank, plain
from specbench.model.columns import shown_in

if TYPE_CHECKING:
    from specbench.recording import Recording

Outcome = Literal["passed", "failed", "undecided"]
MOST_LINES = 60
MOST_ROWS = 20
MOST_FAULTS = 20
WIDEST = 300
SHOWN = tuple(column.name for column in shown_in("cells") if column.name != "flags")
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A trial, a claim or a finding: did it pass, and what is to be said of it."""

    suite: str
    name: str
    outcome: Outcome
    told: str = ""


def checks_of(recording: "Recording") -> list[Check]:
    """List every timed trial, every claim of losslessness, and every finding of integrity."""
    found = [
        Check(
            suite="trials",
            name=f"{_levels(sealed.trial.cell.levels)} [{sealed.trial.trial_id}]",
            outcome="passed" if sealed.status == "ok" else "failed",
            told=sealed.reason,
        )
        for sealed in recording.sealed
        if sealed.trial.kind == "timed"
    ]
    for number, document in enumerate(recording.verdicts, 1):
        about = f"verdict {number} of launch {document.launch_fingerprint[:12]}"
        for claim in document.claims:
            told = claim.finding or claim.note
            found.append(
                Check(suite=about, name=claim.name, outcome=_outcome(claim.verdict), told=told)
            )
        found += [
            Check(suite=about, name=one.name, outcome="failed", told=one.finding)
            for one in document.integrity
        ]
        if not document.claims:
            outcome = _outcome(document.verdict)
            found.append(Check(suite=about, name="verdict", outcome=outcome, told=document.reason))
    return found


def _outcome(verdict: str) -> Outcome:
    outcomes: dict[str, Outcome] = {"holds": "passed", "violated": "failed"}
    return outcomes.get(verdict, "undecided")


def _levels(levels: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in levels.items() if value is not None)


def junit(checks: Sequence[Check]) -> str:
    """Give JUnit XML: what failed is a failure, what could not be decided an error."""
    root = ET.Element("testsuites", {"name": "specbench", **_counts(checks)})
    for suite in dict.fromkeys(check.suite for check in checks):
        inside = [check for check in checks if check.suite == suite]
        element = ET.SubElement(root, "testsuite", {"name": _xml(suite), **_counts(inside)})
        for check in inside:
            names = {"classname": _xml(f"specbench.{suite}"), "name": _xml(check.name)}
            case = ET.SubElement(element, "testcase", names)
            if check.outcome != "passed":
                kind = "failure" if check.outcome == "failed" else "error"
                told = _xml(check.told or check.outcome)
                ET.SubElement(case, kind, message=told, type=check.outcome).text = told
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "tests": str(len(checks)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("undecided")),
    }


def _xml(text: str) -> str:
    """Leave out what XML 1.0 cannot hold."""
    return NOT_XML.sub("\ufffd", text)


def comment(recording: "Recording", checks: Sequence[Check]) -> str:
    """Give a comment for a pull request: at most 60 lines, what is wrong first."""
    counts = {name: sum(check.outcome == name for check in checks) for name in _WORDS}
    told = ", ".join(f"{count} {_WORDS[name]}" for name, count in counts.items() if count)
    lines = [f"### specbench: {_cell(recording.manifest.name)}", "", f"{told or 'no trial'}.", ""]
    wrong = [check for check in checks if check.outcome != "passed"]
    lines += [
        f"- **{_WORDS[check.outcome]}**: {_cell(check.name)} ({_cell(check.suite)})"
        f" {_cell(check.told)}".rstrip()
        for check in wrong[:MOST_FAULTS]
    ]
    if len(wrong) > MOST_FAULTS:
        lines.append(f"- and {len(wrong) - MOST_FAULTS} more")
    lines += ["", *_table(recording), "", f"Recording `{_cell(recording.path.name)}`."]
    return "\n".join(lines) + "\n"


_WORDS: dict[Outcome, str] = {"failed": "failed", "undecided": "undecided", "passed": "passed"}


def _table(recording: "Recording") -> Iterable[str]:
    table = recording.trials
    if table.empty:
        return []
    factors = list(table.columns[: list(table.columns).index("cell_id")])
    names = [*factors, *(name for name in SHOWN if table[name].notna().any())]
    rows = [
        _row([_shown(row[name]) for name in names])
        for row in table.head(MOST_ROWS).to_dict("records")
    ]
    more = len(table) - MOST_ROWS
    left = ["", f"{more} more trials are in the recording."] if more > 0 else []
    return [_row(names), _row(["---"] * len(names)), *rows, *left]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(value: Any) -> str:
    if is_blank(value):
        return ""
    value = plain(value)
    return f"{value:.4g}" if isinstance(value, float) else _cell(str(value))


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    short = flat if len(flat) <= WIDEST else f"{flat[: WIDEST - 1]}…"
    for mark, said in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("@", "&#64;"), ("`", "'")):
        short = short.replace(mark, said)
    return short
