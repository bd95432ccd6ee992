"""The reviewer's checklist: known ways to be wrong, and how each was ruled out or found."""

from collections.abc import Callable
from dataclasses import dataclass

from specbench.report.checklist import accepting, comparing, measuring, operating, verifying
from specbench.report.checklist.answer import Answer, Case, State
from specbench.report.inputs import Evidence
from specbench.report.speedups import SpeedUp

__all__ = ["PITFALLS", "Answer", "Item", "Pitfall", "State", "review"]

Check = Callable[[Case], Answer]


@dataclass(frozen=True, kw_only=True)
class Pitfall:
    """A mistake that happened to people in public, and the check that looks for it."""

    id: str
    mistake: str
    check: Check


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of the checklist."""

    pitfall: Pitfall
    answer: Answer


PITFALLS: tuple[Pitfall, ...] = tuple(
    Pitfall(id=id_, mistake=mistake, check=check)
    for id_, mistake, check in (
        ("C1", "cells of different concurrency compared", comparing.unmatched_cells),
        ("C2", "different prompts on the two arms", comparing.same_prompts),
        ("C3", "two things changed at once", comparing.one_change),
        ("C4", "no plain autoregressive control", comparing.has_control),
        ("C5", "a server capped below the concurrency that was sent", comparing.capped),
        ("C6", "one arm without overlap scheduling or CUDA graphs", comparing.same_machinery),
        ("C7", "means without n and interval", comparing.intervals),
        ("C8", "repeats inside one server only", comparing.launches),
        ("C9", "arms measured one after the other", comparing.interleaved),
        ("C10", "accept rates of chains and trees compared", comparing.accept_len_only),
        ("C11", "acceptance taken for speed", comparing.acceptance_is_not_speed),
        ("C12", "one budget extrapolated to another", comparing.measured_points_only),
        ("C14", "throughput from a few requests a slot", comparing.enough_requests),
        ("M1", "one token per stream chunk assumed", measuring.token_counts),
        ("M2", "the server's lifetime accept length read as this run's", accepting.own_counters),
        ("M3", "completion tokens divided by verify steps", accepting.steps_counted),
        ("M4", "warm-up, start or tail inside the window", measuring.steady_window),
        ("M5", "the first wave of prefills taken for TTFT", measuring.staggered),
        ("M6", "prefix cache hits on repeats", measuring.cold_cache),
        ("M7", "forced lengths, random prompts or no chat template", measuring.natural_text),
        ("M8", "the client was the bottleneck", measuring.client_fast_enough),
        ("M9", "sampling fields left to the server's defaults", measuring.sampling_sent),
        ("M10", "greedy decoding above temperature 0", accepting.really_sampled),
        ("M11", "simulated acceptance left on", accepting.not_simulated),
        ("M12", "acceptance thresholds below 1", accepting.exact_thresholds),
        ("M13", "failed or retracted requests dropped", measuring.failures_counted),
        ("M14", "one arm writes longer answers", measuring.equal_lengths),
        ("M15", "load driven across a network", measuring.driven_locally),
        ("M16", "instrumentation on while timing", measuring.not_instrumented),
        ("M17", "a drafter that learns across requests", accepting.drafter_state),
        ("M18", "accept length over steps with a draft only", accepting.every_step_counted),
        ("M19", "events that came together taken for one another's times", measuring.stamps_carry),
        ("M20", "counts that contradict the stream believed", accepting.counts_agree),
        ("O1", "another server answered", operating.right_server),
        ("O2", "port in use", operating.free_port),
        ("O3", "a bad flag found after the load", operating.flags_known),
        ("O4", "waiting for a server that had died", operating.died_early),
        ("O5", "a stale result read as new", operating.sealed),
        ("O6", "patched code on one server only", operating.same_code),
        ("O7", "a run lost to a dropped connection", operating.resumable),
        ("O8", "a stop that hung", operating.stopped),
        ("O9", "someone else's job on the GPU", operating.machine_alone),
        ("O10", "two people measuring at once", operating.host_locked),
        ("V1", "losslessness claimed by looking", verifying.has_verdict),
        ("V2", "two identical runs taken as proof", verifying.against_reference),
        ("V3", "any mismatch at temperature 0 called a bug", verifying.by_margin),
        ("V4", "temperature above 0 assumed from temperature 0", verifying.both_regimes),
        ("V5", "accuracy on a task called lossless", verifying.not_by_accuracy),
        ("V6", "top_k and top_p together", verifying.one_filter),
        ("V7", "restart noise taken for a difference", verifying.across_launches),
        ("V8", "exactness tested at concurrency 1 only", verifying.verified_concurrency),
    )
)  # fmt: skip


def review(evidence: Evidence, pairs: list[SpeedUp]) -> list[Item]:
    """Go through the whole checklist for one recording."""
    case = Case(evidence=evidence, pairs=pairs)
    return [Item(pitfall=pitfall, answer=pitfall.check(case)) for pitfall in PITFALLS]
