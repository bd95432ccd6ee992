"""Checks of the mistakes in comparing arms (C1 to C12)."""

import pandas as pd

from specbench.backends.recorded import recorded_facts
from specbench.report import cells
from specbench.report.checklist.answer import (
    Answer,
    Case,
    by_flags,
    excluded,
    flagged,
    found,
    unknown,
)
from specbench.report.inputs import Evidence
from specbench.report.statements import count, listed

MIN_SHARE_IN_FLIGHT = 0.9


def unmatched_cells(case: Case) -> Answer:
    """C1: acceptance or speed of different concurrency compared."""
    lonely = [pair for pair in case.pairs if pair.control_id is None]
    if not case.pairs:
        return unknown("no speculative cell was measured, so nothing was compared")
    if lonely:
        names = listed([pair.label for pair in lonely])
        return found(
            f"{count(len(lonely), 'cell has', 'cells have')} no control of equal levels and"
            f" {'is' if len(lonely) == 1 else 'are'} compared with nothing: {names}",
            [pair.cell_id for pair in lonely],
        )
    return excluded(
        f"all {len(case.pairs)} comparisons are between cells that are equal in every other factor"
    )


def same_prompts(case: Case) -> Answer:
    """C2: different prompts on the two arms."""
    asked = _prompts_of_cells(case.evidence)
    compared = [pair for pair in case.pairs if pair.control_id in asked and pair.cell_id in asked]
    if not compared:
        return unknown("no request rows of two compared arms")
    differing = [p for p in compared if asked[p.cell_id] != asked[str(p.control_id)]]
    if differing:
        return found(
            f"different prompts on the two arms of {count(len(differing), 'comparison')}:"
            f" {listed([pair.label for pair in differing])}",
            [pair.cell_id for pair in differing],
        )
    return excluded(f"equal prompt ids on both arms of all {len(compared)} comparisons")


def _prompts_of_cells(evidence: Evidence) -> dict[str, frozenset[str]]:
    requests = evidence.requests
    if requests.empty:
        return {}
    measured = requests[requests["phase"] == "measured"]
    groups = measured.groupby("cell_id", observed=True)["prompt_id"].unique()
    return {str(cell): frozenset(map(str, prompts)) for cell, prompts in groups.items()}


def one_change(case: Case) -> Answer:
    """C3: two things changed at once."""
    confounded = [pair for pair in case.pairs if pair.confounds]
    if confounded:
        columns = sorted({name for pair in confounded for name in pair.confounds})
        return found(
            f"{count(len(confounded), 'comparison is', 'comparisons are')} refused, for the arms"
            f" also differ in {listed(columns)}",
            [pair.cell_id for pair in confounded],
        )
    if not any(pair.guarded for pair in case.pairs):
        return unknown("the servers' own facts were not recorded")
    return excluded(
        "arguments, environment, code, driver, device and client of the servers were compared"
    )


def has_control(case: Case) -> Answer:
    """C4: no plain autoregressive control."""
    arms = {str(arm) for arm in cells.usable(case.evidence.trials)["algorithm"].dropna()}
    if case.evidence.control not in arms:
        return found(
            f"the control arm `{case.evidence.control}` was not measured: nothing is relative"
        )
    return excluded(f"the control arm `{case.evidence.control}` was measured in the same run")


def capped(case: Case) -> Answer:
    """C5: a server ran fewer requests at once than were sent."""
    raised = flagged(case.evidence, "C5")
    good = cells.usable(case.evidence.trials)
    if "concurrency" not in good.columns:
        return by_flags(case.evidence, "C5", else_=unknown("load was not a closed loop"))
    target = pd.to_numeric(good["concurrency"])
    low = good[good["concurrency_effective"] < MIN_SHARE_IN_FLIGHT * target]
    if raised or len(low):
        rows = [row for ids in raised.values() for row in ids] + list(low["trial_id"])
        return found(
            f"{count(len(set(rows)), 'trial')} ran below the concurrency that was asked for:"
            " the server capped it or requests queued",
            dict.fromkeys(rows),
        )
    if not good["concurrency_effective"].notna().any():
        return unknown("requests in flight were not measured")
    return excluded("requests in flight were at the target in the steady window of every trial")


def same_machinery(case: Case) -> Answer:
    """C6: one arm without overlap scheduling or CUDA graphs."""
    servers = [recorded_facts(facts) for facts in case.evidence.blocks.values()]
    machinery = {
        "CUDA graphs": ("graph", {one.graphs for one in servers} - {None}),
        "overlap scheduling": ("overlap", {one.overlap for one in servers} - {None}),
    }
    seen = any(values for _, values in machinery.values())
    differing = [name for name, (_, values) in machinery.items() if len(values) > 1]
    forced = {
        name for facts in case.evidence.blocks.values() if facts.spec for name in facts.spec.forces
    }
    if differing and all(any(machinery[it][0] in arg for arg in forced) for it in differing):
        return found(
            f"servers differ in {listed(differing)}, which the algorithm itself forces: its cost is"
            " part of every speed-up here"
        )
    if differing:
        return found(
            f"servers differ in {listed(differing)}: an arm without graphs or overlap is not"
            " compared with one that has them, unless that is the factor under test"
        )
    if not seen:
        return unknown("the servers do not report overlap scheduling and CUDA graphs")
    return excluded("overlap scheduling and CUDA graphs are equal on all servers")


def intervals(case: Case) -> Answer:
    """C7: means without n; differences below the noise."""
    bare = [
        pair for pair in case.pairs if pair.control_id and pair.low is None and not pair.confounds
    ]
    if bare:
        return found(
            f"{count(len(bare), 'comparison has', 'comparisons have')} no interval, so no claim is"
            " made from them: measure each cell more than once",
            [pair.cell_id for pair in bare],
        )
    with_interval = [pair for pair in case.pairs if pair.low is not None]
    if not with_interval:
        return unknown("nothing was compared")
    return excluded(f"each of {len(with_interval)} ratios has an interval and n")


def launches(case: Case) -> Answer:
    """C8: repeats inside one server only."""
    good = cells.usable(case.evidence.trials)
    if good.empty:
        return unknown("nothing was measured")
    each = good.groupby("cell_id")["block_id"].nunique()
    if each.min() < 2:
        few = [str(cell) for cell, n in each.items() if n < 2]
        return found(
            f"{count(len(few), 'cell rests', 'cells rest')} on one launch: the variance between"
            " restarts is unseen there",
            few,
        )
    return excluded(f"every cell was measured in at least {each.min()} launches")


def interleaved(case: Case) -> Answer:
    """C9: one arm after the other while the machine got hotter."""
    hot = flagged(case.evidence, "C9")
    if hot:
        rows = [row for ids in hot.values() for row in ids]
        return found(f"{count(len(rows), 'trial')} ran on a hot or throttled GPU", rows)
    good = cells.usable(case.evidence.trials)
    order = [str(arm) for arm in good.sort_values("started_at")["algorithm"]]
    turns = [arm for i, arm in enumerate(order) if i == 0 or order[i - 1] != arm]
    if len(set(turns)) < 2:
        return unknown("fewer than two arms were measured")
    if len(turns) == len(set(turns)):
        return found(
            "the arms ran one after the other, each once: a drift of the machine would look like"
            " a difference between them"
        )
    temperature = good["gpu_temp_c_max"].notna().any()
    also = "" if temperature else "; GPU temperature was not recorded"
    return excluded(f"arms alternate ({len(turns)} turns of {len(set(turns))} arms){also}")


def accept_len_only(case: Case) -> Answer:
    """C10: accept rates of chains and trees compared."""
    if "accept_rate" in case.evidence.trials.columns:
        return found("the table carries an accept rate, whose meaning differs between algorithms")
    return excluded("no accept rate is compared: only accept_len, tokens emitted a verify step")


def acceptance_is_not_speed(case: Case) -> Answer:
    """C11: acceptance taken for speed."""
    told = [pair for pair in case.pairs if pair.accept_ratio is not None and pair.ratio is not None]
    more = [pair for pair in told if (pair.accept_ratio or 0) > 1.05]
    lost = [pair for pair in more if pair.verdict in {"slower", "no_difference"}]
    if lost:
        return found(
            f"{count(len(lost), 'cell')} accepted more than the control and came out no faster:"
            " the time of a step ate the gain (see the decomposition)",
            [pair.cell_id for pair in lost],
        )
    open_ = [pair for pair in more if pair.verdict == "inconclusive"]
    if open_:
        return unknown(
            f"{count(len(open_), 'cell')} accepted more than the control, and whether that became"
            " speed is not decided"
        )
    if not told:
        return unknown("acceptance or speed was not measured on two matched arms")
    return excluded("each speed-up is split into the ratios of accept_len and of step time")


def measured_points_only(case: Case) -> Answer:
    """C12: one budget extrapolated to another."""
    good = cells.usable(case.evidence.trials)
    names = [name for name in ("budget", "topk") if name in good.columns]
    single = [n for n in names if len({cells.plain(v) for v in good[n]} - {None}) == 1]
    also = f"; {listed(single)} took one level, so nothing is said about others" if single else ""
    return excluded(f"curves join measured points only, and no value is extrapolated{also}")


def enough_requests(case: Case) -> Answer:
    """C14: throughput from a few requests a slot."""
    if cells.usable(case.evidence.trials).empty:
        return unknown("nothing was measured")
    fine = excluded("every trial asked 8 requests a slot, or more")
    return by_flags(case.evidence, "C14", else_=fine)
