"""The answer of a search for the cause in a sentence, or what is still possible."""

from collections.abc import Mapping, Sequence

from specbench.model.matrix import Level
from specbench.planning.search_terms import Answer, Checked, Suspect, Tried

LEAST_SAID = 0.02
MOST_SAID = 4

Levels = Mapping[str, tuple[Level, Level]]


def reading(answer: Answer, levels: Levels, flaky: str) -> str:
    """Say the answer in a sentence; `flaky` is what is to be said of an unsteady probe."""
    if not answer.conclusive:
        return f"not decided: {answer.why}; still possible: {_possible(answer.suspects)}{flaky}"
    top = answer.suspects[0]
    return f"{_law(top, levels)}, probability {top.probability:.3f}{flaky}"


def _law(top: Suspect, levels: Levels) -> str:
    names = [_with_levels(name, levels) for name in top.causes]
    match top.kind:
        case "single":
            return f"{names[0]} alone turns good into bad"
        case "pair":
            return f"{names[0]} together with {names[1]}, neither alone"
        case "either":
            return f"{_sets(top, levels)}, each is enough"
        case "unless":
            return f"{_sets(top, levels)} alone, {_cure(top, levels)}"
        case "always":
            return "the probe fails on the good server too: it shows no difference"
        case _:
            return f"{_listed(names)} together, not without any one of them"


def named(suspect: Suspect) -> str:
    """Name a suspect in few words."""
    match suspect.kind:
        case "always":
            return "the good server fails too"
        case "other":
            return "something else"
        case _:
            sets = " or ".join(" with ".join(one) for one in suspect.sets)
            cure = suspect.cure
            return f"{sets}, unless {cure[0]} without {cure[1]}" if cure else sets


def would_decide(answer: Answer, more: float | None) -> str:
    """Say which launches would decide what was left open."""
    match answer.reason:
        case "confirmed":
            return ""
        case "catch-all":
            return (
                "start again between cells that are nearer to each other:"
                " the smallest configuration that failed, and one below it that passed"
            )
        case "differs by launch":
            return (
                "more launches of the same configurations (--second-looks), or what differs"
                " between launches made a factor (a seed, a memory size, tuning at the start)"
            )
        case _:
            missing = [_wanted(check) for check in answer.checks if not check.confirmed]
            bound = [f"about {more:.0f} more launches (--most-launches)"] if more else []
            return "; ".join([*bound, *missing])


def smallest_failing(tried: Sequence[Tried]) -> list[tuple[str, ...]]:
    """Give the configurations that failed and hold no smaller one that failed."""
    failed = {t.configuration for t in tried if t.verdict == "fails"}
    return sorted(tuple(sorted(c)) for c in failed if not any(other < c for other in failed))


def largest_passing(tried: Sequence[Tried]) -> list[tuple[str, ...]]:
    """Give the configurations that passed and are in no larger one that passed."""
    passed = {t.configuration for t in tried if t.verdict == "passes"}
    return sorted(tuple(sorted(c)) for c in passed if not any(other > c for other in passed))


def _possible(suspects: Sequence[Suspect]) -> str:
    said = [s for s in suspects if s.probability >= LEAST_SAID][:MOST_SAID]
    return ", ".join(f"{named(s)} ({s.probability:.2f})" for s in said)


def _wanted(check: Checked) -> str:
    server = f"bad {', '.join(check.bad)}" if check.bad else "the good server"
    return f"{server} must {'fail' if check.fails else 'pass'}"


def _with_levels(name: str, levels: Levels) -> str:
    good, bad = levels[name]
    return f"{name} ({good} -> {bad})"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _sets(suspect: Suspect, levels: Levels) -> str:
    return " or ".join(
        " with ".join(_with_levels(name, levels) for name in one) for one in suspect.sets
    )


def _cure(suspect: Suspect, levels: Levels) -> str:
    curing, undoing = suspect.cure or ("", "")
    return f"cured by {_with_levels(curing, levels)} unless {_with_levels(undoing, levels)} too"
