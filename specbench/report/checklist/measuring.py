"""Checks of the mistakes in measuring load, time and text (M1 to M16, M19)."""

import pandas as pd

from specbench.backends.recorded import recorded_facts
from specbench.model.load import Sampling
from specbench.report import cells
from specbench.report.checklist.answer import (
    Answer,
    Case,
    by_flags,
    excluded,
    flagged,
    found,
    ids,
    unknown,
)
from specbench.report.statements import count, listed

WINDOW_AGREEMENT = 0.10
LENGTH_AGREEMENT = 0.05
FAILED_SHARE = 0.01
SAMPLING_FIELDS = frozenset(Sampling.__struct_fields__)
"""What models bring defaults for (generation_config.json), or may: a request must say each."""


def token_counts(case: Case) -> Answer:
    """M1: one token per SSE chunk assumed."""
    good = cells.usable(case.evidence.trials)
    if good.empty:
        return unknown("nothing was measured")
    blind = good[good["tpot_ms_p50"].isna() & ~_withheld(good)]
    if len(blind):
        return found(
            f"{count(len(blind), 'trial has', 'trials have')} no token counts from the server:"
            " tpot_ms is empty there, and chunk gaps are not shown in its place",
            ids(blind),
        )
    return excluded("tpot_ms counts tokens as the server does; chunk_gap_ms is a column of its own")


def _withheld(trials: pd.DataFrame) -> pd.Series:
    """Mark the trials some figures of which are withheld for their own reasons."""
    known = trials.get("in_doubt")
    return pd.Series(data=False, index=trials.index) if known is None else known.notna()


def stamps_carry(case: Case) -> Answer:
    """M19: the first 40 ms of a reply in one stamp."""
    if cells.usable(case.evidence.trials).empty:
        return unknown("nothing was measured")
    fine = excluded("the bound of each latency is less than a tenth of it, or it is withheld")
    return by_flags(case.evidence, "M19", else_=fine)


def steady_window(case: Case) -> Answer:
    """M4: warm-up inside the window, start burst, idle tail."""
    raised = flagged(case.evidence, "M4")
    if raised:
        return by_flags(case.evidence, "M4", else_=unknown(""))
    good = cells.usable(case.evidence.trials)
    both = good[good["tok_s_window"].notna() & (good["tok_s"] > 0)]
    if both.empty:
        return unknown("no steady window was recorded")
    off = both[(both["tok_s_window"] / both["tok_s"] - 1).abs() > WINDOW_AGREEMENT]
    if len(off):
        return found(
            f"whole-run and steady-window throughput differ by more than 10 % on"
            f" {count(len(off), 'trial')}: ramp and tail weigh much there",
            ids(off),
        )
    if not (case.evidence.requests["phase"] == "warmup").any():
        return unknown("windows agree with whole runs, but no warm-up request was recorded")
    return excluded("warm-up requests are apart, and steady windows agree with whole runs to 10 %")


def staggered(case: Case) -> Answer:
    """M5: the first wave of prefills taken for TTFT."""
    requests = case.evidence.requests
    measured = requests[requests["phase"] == "measured"]
    if measured.empty:
        return unknown("no request rows")
    first = measured.groupby("trial_id", observed=True)["intended_ns"].transform("min")
    burst = measured[measured["intended_ns"] <= first + 1_000_000]
    sizes = burst.groupby("trial_id", observed=True).size()
    slots = case.evidence.trials.set_index("trial_id")["concurrency_effective"]
    big = [
        str(trial)
        for trial, size in sizes.items()
        if size > max(2, float(slots.get(str(trial), 0) or 0) / 2)
    ]
    if big:
        return found(
            f"{count(len(big), 'trial')} began with a burst of requests at one instant: its TTFT"
            " holds that wave of prefills",
            big,
        )
    return excluded("no trial began with a burst: first sends are spread")


def cold_cache(case: Case) -> Answer:
    """M6: prefix cache hits on repeats."""
    if not cells.usable(case.evidence.trials)["cached_tokens"].notna().any():
        return by_flags(
            case.evidence, "M6", else_=unknown("the server does not report cached tokens")
        )
    return by_flags(
        case.evidence, "M6", else_=excluded("cached prompt tokens are recorded and few")
    )


def natural_text(case: Case) -> Answer:
    """M7: ignore_eos, random prompts, missing chat template."""
    workload = case.evidence.matrix.get("workload") or {}
    forced = workload.get("ignore_eos") is True or any(
        (setting.get("sampling") or {}).get("ignore_eos")
        for setting in case.evidence.settings.values()
    )
    raw = workload.get("api") in ("completions", "generate")
    answer = by_flags(case.evidence, "M7", else_=unknown("the workload was not recorded"))
    if answer.state == "found":
        return answer
    if forced:
        return found("`ignore_eos` was on: texts were forced beyond their end")
    if raw:
        return found(f"prompts went to the {workload['api']} API, without a chat template")
    if not case.evidence.settings and not workload:
        return answer
    return excluded("natural prompts through the chat template, with natural ends")


def client_fast_enough(case: Case) -> Answer:
    """M8: the client was the bottleneck."""
    if not cells.usable(case.evidence.trials)["client_lag_ms_p99"].notna().any():
        return by_flags(case.evidence, "M8", else_=unknown("the client's own lag was not recorded"))
    worst = cells.usable(case.evidence.trials)["client_lag_ms_p99"].max()
    return by_flags(
        case.evidence,
        "M8",
        else_=excluded(f"the client's own lag was recorded: at most {worst:.2f} ms at p99"),
    )


def sampling_sent(case: Case) -> Answer:
    """M9: sampling fields left to the server's defaults."""
    sent = {
        trial: set(setting["sampling"])
        for trial, setting in case.evidence.settings.items()
        if setting.get("sampling")
    }
    if not sent:
        return unknown("the sampling fields were not recorded")
    lacking = [trial for trial, names in sent.items() if not names >= SAMPLING_FIELDS]
    if lacking:
        missing = sorted(SAMPLING_FIELDS - set.intersection(*(sent[trial] for trial in lacking)))
        return found(
            f"{count(len(lacking), 'trial')} left {listed(missing)} to the server's defaults",
            lacking,
        )
    return excluded(f"all {len(SAMPLING_FIELDS)} sampling fields were sent with every request")


def failures_counted(case: Case) -> Answer:
    """M13: failed or retracted requests dropped from the mean."""
    trials = case.evidence.trials
    failed = trials[(trials["n_failed"] > 0) | (trials["retractions"] > 0)]
    if len(failed):
        n_failed, n_retracted = int(trials["n_failed"].sum()), int(trials["retractions"].sum())
        return found(
            f"{count(n_failed, 'request')} failed and {count(n_retracted, 'retraction')} came on"
            f" {count(len(failed), 'trial')}; they are counted, and shown beside each row",
            ids(failed),
        )
    return excluded("no measured request failed, and none was retracted")


def equal_lengths(case: Case) -> Answer:
    """M14: one arm generates longer texts."""
    apart = [
        pair
        for pair in case.pairs
        if pair.length_ratio is not None and abs(pair.length_ratio - 1) > LENGTH_AGREEMENT
    ]
    longer = [p for p in apart if any(d.startswith("output_lengths_differ") for d in p.withheld)]
    if longer:
        worst = max(longer, key=lambda pair: abs((pair.length_ratio or 1) - 1))
        return found(
            f"answers differ in length by more than 5 % on {count(len(longer), 'comparison')}"
            f" (worst: {worst.label}, {worst.length_ratio:.2f} of the control's tokens on the same"
            " prompts)",
            [pair.cell_id for pair in longer],
        )
    if apart:
        return unknown(
            f"answers differ in length by more than 5 % on {count(len(apart), 'comparison')}, but"
            " no more than chance would give"
        )
    if not any(pair.length_ratio is not None for pair in case.pairs):
        return unknown("no request rows of two compared arms")
    return excluded("answers to the same prompts are equally long on both arms, to 5 %")


def driven_locally(case: Case) -> Answer:
    """M15: load driven across a network or tunnel."""
    hosts = case.evidence.manifest.hosts
    remote = [
        name
        for name, facts in hosts.items()
        if isinstance(facts, dict) and facts.get("address") and facts.get("drive_from") != "host"
    ]
    if remote:
        return found(
            f"load was driven across the network on {listed(remote)}: latencies include it"
        )
    silent = unknown("where load was driven from was not recorded")
    return by_flags(
        case.evidence,
        "M15",
        else_=excluded("load was driven on the server's host") if hosts else silent,
    )


def not_instrumented(case: Case) -> Answer:
    """M16: instrumentation on while timing."""
    every_step = [
        block
        for block, facts in case.evidence.blocks.items()
        if recorded_facts(facts).steps_a_log_line == 1
    ]
    if every_step:
        return found(f"a log line every decode step on {listed(every_step)}", every_step)
    silent = unknown("the servers' logging settings were not recorded")
    return by_flags(
        case.evidence,
        "M16",
        else_=excluded("no profiler, no log line a step") if case.evidence.blocks else silent,
    )
