"""An isolation as it goes: the plan before the first launch, verdicts, the answer."""

from collections.abc import Iterable, Mapping

from specbench.cli.show.consoles import say, say_json
from specbench.model.matrix import Level
from specbench.planning.search_forecast import Forecast
from specbench.planning.search_terms import Checked
from specbench.workflows.isolate_events import (
    Asked,
    Finding,
    IsolateEvent,
    Judged,
    Launching,
    Planned,
)
from specbench.workflows.isolate_wording import named


def follow(events: Iterable[IsolateEvent]) -> Finding | None:
    """Show progress on standard error; return the answer."""
    finding, last = None, ""
    for event in events:
        match event:
            case Planned():
                _show_plan(event)
            case Launching(bad=bad):
                say(f"launching with {_set(bad)}", err=True)
            case Asked():
                last = _show_asked(event, last)
            case Judged():
                _show_judged(event)
            case Finding():
                finding = event
    return finding


def show(finding: Finding | None, *, as_json: bool) -> int:
    """Print the answer on standard output; return its exit status."""
    if finding is None:
        return 0
    if as_json:
        say_json(finding, indent=1)
        return finding.exit_status
    say(finding.reading)
    for check in finding.checks:
        say(f"  {_outcome(check)}: {_set(check.bad)}")
    say(f"probe: {finding.probe}, at {_levels(finding.settings)}, {finding.probes} times a launch")
    for step in finding.needed:
        say(f"  passes on the bad server at {step.factor}={step.level}")
    if finding.would_decide:
        say(f"more would tell: {finding.would_decide}")
    for suspect in finding.suspects[1:4]:
        say(f"  next: {named(suspect)}, probability {suspect.probability:.3f}")
    if not finding.conclusive:
        say(f"failed, and nothing smaller did: {_sets(finding.smallest_failing)}")
        say(f"passed, and nothing larger did: {_sets(finding.largest_passing)}")
    say(f"{finding.launches} launches, {finding.minutes:.1f} minutes; {finding.journal}")
    return finding.exit_status


def _outcome(check: Checked) -> str:
    if check.confirmed is None:
        return f"not launched, would have to {'fail' if check.fails else 'pass'}"
    return "fails" if check.fails == check.confirmed else "passes"


def _show_plan(plan: Planned) -> None:
    say(f"probe: {plan.probe}", err=True)
    for candidate in plan.candidates:
        say(f"  {candidate.name}: {candidate.good} -> {candidate.bad}", err=True)
    most = 1 + plan.forecast.most_launches
    told = "minutes are told after the first launch"
    time = told if plan.minutes is None else f"{plan.minutes:.1f} minutes"
    cost = f"{plan.launches:.1f} launches, {time}"
    say(f"expected: {cost} (up to {most} launches when no verdict errs)", err=True)
    say("first: the bad server, on which the probe is made cheaper without a restart", err=True)
    say(_steps(plan.forecast), err=True)


def _steps(expected: Forecast) -> str:
    if not expected.first:
        return "then: nothing is left to launch"
    fails, passes = _set(expected.if_it_fails), _set(expected.if_it_passes)
    return f"then: {_set(expected.first)}; if it fails {fails}, if it passes {passes}"


def _show_asked(event: Asked, last: str) -> str:
    """Show a probe that was made cheaper; equal ones once. Return what was shown last."""
    source = "from the journal" if event.cached else f"{event.minutes:.1f} min"
    told = f"  {event.verdict}: {_set(event.bad)} at {_levels(event.settings)}"
    if event.shrinking and told != last:
        note = f" - {event.note}" if event.note else ""
        say(f"{told} ({source}){note}", err=True)
    return told


def _show_judged(event: Judged) -> None:
    counts = event.counts
    probes = f"{counts.failed} of {counts.asked} probes failed" if counts.asked else "undecided"
    note = f" - {event.note}" if event.note else ""
    say(f"  {event.verdict}: {_set(event.bad)} ({probes}){note}", err=True)
    if event.launches_left is not None and event.minutes_left is not None:
        left = f"{event.launches_left:.1f} launches, {event.minutes_left:.1f} minutes"
        say(f"  left, as measured so far: {left}", err=True)


def _sets(several: Iterable[Iterable[str]]) -> str:
    return "; ".join(_set(one) for one in several) or "nothing"


def _set(bad: Iterable[str]) -> str:
    names = list(bad)
    return "bad " + ", ".join(names) if names else "everything good"


def _levels(levels: Mapping[str, Level]) -> str:
    return " ".join(f"{name}={level}" for name, level in levels.items()) or "its own settings"
