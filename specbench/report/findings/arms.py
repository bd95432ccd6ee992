"""Arms among themselves: every pair that a reader would ask for, in one grid of ratios."""

import shlex
from collections.abc import Iterator

from specbench.analysis.answer import FACTORS
from specbench.analysis.comparison import Comparison, Pooled
from specbench.report.comparison.answer import answer_of, sentence_of, table_of
from specbench.report.inputs import Evidence
from specbench.report.judged import judged, pairs_of_arms
from specbench.report.numbers import between, show
from specbench.report.statements import Section, Statement, Table, count, listed

WORDS = {"no_difference": "no difference", "mixed": "depends on the cell"}


def section(evidence: Evidence) -> Section:
    """Compare all arms with each other; absent where there are fewer than two."""
    pairs = [(a, b, judged(evidence, a, b)) for a, b in pairs_of_arms(evidence)]
    found = [(a, b, one) for a, b, one in pairs if one is not None]
    refused = [f"{b} with {a}" for a, b, one in pairs if one is None]
    told = [one for _, _, one in found]
    return Section(
        anchor="arms",
        title="Arms among themselves",
        intro="Each ratio is of tok_s of the first over the second, with the 95 % interval that"
        " decides. Launch errors are shared between cells.",
        short="".join(_short(told, evidence.control)).strip(),
        statements=(*(_statement(evidence, one) for one in told), *_refused(refused)),
        tables=(grid(told), *(table_of(answer_of(one)) for one in told)) if told else (),
        front=1,
    )


def grid(found: list[Comparison]) -> Table:
    """Give a row a pair and a column each for all cells and for each temperature and load."""
    scopes = _scopes(found)
    return Table(
        heads=("pair", "all cells", *scopes),
        rows=tuple(
            (f"{one.b.name} / {one.a.name}", _told(one.pooled), *_by_scope(one, scopes))
            for one in found
        ),
        caption="tok_s of each arm over the other: ratio, 95 % interval, verdict",
        keys=tuple(key_of(one) for one in found),
    )


def _scopes(found: list[Comparison]) -> list[str]:
    """List the levels of temperature and load, rising."""
    parts = {part.scope: part for one in found for part in one.by}

    def place(scope: str) -> tuple[int, float]:
        part = parts[scope]
        level = part.level if isinstance(part.level, int | float) else 0.0
        return FACTORS.index(part.factor) if part.factor in FACTORS else len(FACTORS), level

    return sorted(parts, key=place)


def key_of(one: Comparison) -> str:
    """Name the row of a pair."""
    return f"arms-{one.a.name}-{one.b.name}"


def command_of(evidence: Evidence, a: str, b: str, where: str = "") -> str:
    """Give the command that makes a comparison again."""
    path = f"results/{evidence.name}"
    words = [
        "specbench",
        "compare",
        a,
        b,
        "--recording",
        path,
        *(["--why", where] if where else []),
    ]
    return shlex.join(words)


def _by_scope(one: Comparison, scopes: list[str]) -> Iterator[str | None]:
    parts = {part.scope: part for part in one.by}
    yield from (_told(parts[scope]) if scope in parts else None for scope in scopes)


def _told(part: Pooled) -> str:
    told = part.estimate
    verdict = WORDS.get(str(part.verdict), str(part.verdict))
    return f"{show(told.ratio)} {between(told.low, told.high)} {verdict}"


def _short(found: list[Comparison], control: str) -> Iterator[str]:
    """Say the pairs without the control, which no other section speaks of."""
    others = [one for one in found if one.a.name != control]
    for one in others[:3]:
        yield f"{sentence_of(one)} "
    if found and not others:
        yield f"Each arm against `{control}`, over all cells and by what was asked."


def _statement(evidence: Evidence, one: Comparison) -> Statement:
    decided = one.verdict not in {"inconclusive", "mixed"}
    trials, launches = one.a.trials + one.b.trials, one.a.launches + one.b.launches
    n = f"n = {count(trials, 'trial')} in {count(launches, 'launch', 'launches')}"
    return Statement(
        kind="claim" if decided else "withheld",
        text=f"{sentence_of(one).rstrip('.')} ({n}).",
        rows=(key_of(one),),
        command=command_of(evidence, one.a.name, one.b.name),
    )


def _refused(refused: list[str]) -> Iterator[Statement]:
    if refused:
        yield Statement(
            kind="withheld",
            text=f"Not compared as a whole: {listed(refused)}: more differs than the arms (see Is"
            " it faster?).",
        )
