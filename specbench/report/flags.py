"""What the flags of the trials table mean: one sentence each, and the mistake that it guards."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flag:
    """Where a reader should be careful with a row.

    `pitfall` is the id of the reviewer's checklist; `advice` says what next.
    """

    meaning: str
    advice: str
    pitfall: str


FLAGS: dict[str, Flag] = {
    "client_saturated": Flag(
        meaning="the load generator itself was late or short of CPU: speeds are lower bounds",
        advice="drive from a faster machine or with more processes; this row supports no claim",
        pitfall="M8",
    ),
    "clock_step": Flag(
        meaning="the wall clock was stepped during the trial; durations are monotonic and hold",
        advice="correlate with server logs with care",
        pitfall="M8",
    ),
    "stamps_in_doubt": Flag(
        meaning="events came together, so that their times may be off by more than a tenth: the"
        " figures that rest on them are withheld",
        advice="take the proxy away that collects events, have the server send each at once"
        " (TCP_NODELAY), or give the client more CPU; column `in_doubt` names figures and bounds",
        pitfall="M19",
    ),
    "counts_in_doubt": Flag(
        meaning="the server's counts contradict what was seen, or each other: the figures that"
        " rest on them are withheld",
        advice="look at column `in_doubt` and at the requests it names",
        pitfall="M20",
    ),
    "few_requests": Flag(
        meaning="fewer than 8 requests a slot: the tail of the last replies decides the throughput",
        advice="ask more requests (workload.requests), or lower the concurrency",
        pitfall="C14",
    ),
    "prefix_cache_hits": Flag(
        meaning="the server reused prompt tokens of earlier requests: prefill was cheaper",
        advice="flush the cache, or salt it, before each trial",
        pitfall="M6",
    ),
    "prompts_repeated": Flag(
        meaning="some prompts were asked more often than others: the load ended inside a pass",
        advice="end it by requests, which are whole passes, or give a larger dataset",
        pitfall="M17",
    ),
    "drafter_warm": Flag(
        meaning="a drafter that learns across requests had seen these prompts before",
        advice="reset it, or compare warm with warm",
        pitfall="M17",
    ),
    "server_capped_concurrency": Flag(
        meaning="the server ran fewer requests at once than were sent",
        advice="pin max-running-requests to the same value on every arm",
        pitfall="C5",
    ),
    "simulated_acceptance": Flag(
        meaning="acceptance was simulated by a server setting: accept_len is an input, no result",
        advice="remove the variable from the unit's environment and measure again",
        pitfall="M11",
    ),
    "lossy_thresholds": Flag(
        meaning="acceptance thresholds below 1: the server trades exactness for speed by setting",
        advice="set both thresholds to 1 for a lossless arm",
        pitfall="M12",
    ),
    "thermal": Flag(
        meaning="the GPU was hot or throttled while this trial ran",
        advice="improve the cooling or lower the power limit on every arm, and repeat",
        pitfall="C9",
    ),
    "args_mismatch": Flag(
        meaning="the server's resolved arguments are not the ones that the matrix asked for",
        advice="compare server_info.json of the block with its launch command",
        pitfall="O1",
    ),
    "wrong_model": Flag(
        meaning="the server held another model than the matrix names",
        advice="check the model path and the served name on the host",
        pitfall="O1",
    ),
    "wrong_process": Flag(
        meaning="another process answered than the one that was started for this block",
        advice="stop the stray server and measure again",
        pitfall="O1",
    ),
    "greedy_fallback": Flag(
        meaning="the server decoded greedily although a temperature above 0 was asked for",
        advice="use a device or algorithm whose verification samples",
        pitfall="M10",
    ),
    "forced_greedy": Flag(
        meaning="an environment variable of the server forces greedy verification",
        advice="remove the variable and measure again",
        pitfall="M10",
    ),
    "distribution_not_preserved": Flag(
        meaning="the server said that this algorithm does not preserve the target's distribution",
        advice="treat the arm as lossy at temperatures above 0",
        pitfall="M12",
    ),
    "failed_requests": Flag(
        meaning="some requests failed; they count in n_failed and not in the latencies",
        advice="look at their reasons before believing the rest of the row",
        pitfall="M13",
    ),
    "retractions": Flag(
        meaning="the server ran out of KV memory and retracted running requests",
        advice="lower the concurrency or give the KV cache more memory, equally on every arm",
        pitfall="M13",
    ),
    "no_steady_window": Flag(
        meaning="the requests in flight never stayed at the target: tok_s_window is empty",
        advice="ask more requests a slot",
        pitfall="M4",
    ),
    "interrupted": Flag(
        meaning="the drive was interrupted before its end",
        advice="run the same command again",
        pitfall="O7",
    ),
    "ignore_eos": Flag(
        meaning="texts were forced beyond their end: acceptance there is not that of real answers",
        advice="use natural ends for any claim about acceptance",
        pitfall="M7",
    ),
    "looping_text": Flag(
        meaning="kept replies repeat themselves at their end: loops are easy to draft, so that"
        " acceptance and speed are not those of real answers",
        advice="look at What they wrote; use other prompts, natural ends or a larger model",
        pitfall="M7",
    ),
    "empty_replies": Flag(
        meaning="replies without any text: nothing was generated for some requests",
        advice="look at the requests; an arm that answers nothing is fast and useless",
        pitfall="M7",
    ),
    "replacement_characters": Flag(
        meaning="kept replies hold U+FFFD: bytes that are no text, or a character cut in two",
        advice="compare with the control's reply to the same prompt",
        pitfall="M7",
    ),
    "no_chat_template": Flag(
        meaning="prompts were sent without the model's chat template",
        advice="use the chat API for chat models",
        pitfall="M7",
    ),
    "random_prompts": Flag(
        meaning="prompts were random tokens: acceptance on them says nothing about text",
        advice="use natural prompts",
        pitfall="M7",
    ),
    "driven_remotely": Flag(
        meaning="load crossed a network or tunnel: latencies include it",
        advice="drive from the host (drive_from: host)",
        pitfall="M15",
    ),
    "instrumented": Flag(
        meaning="a profiler or a log line every step was on while time was taken",
        advice="time without it; take details in a separate trial",
        pitfall="M16",
    ),
    "gpu_shared": Flag(
        meaning="another process used the GPU during the trial",
        advice="wait for the machine to be free, or reserve it",
        pitfall="O9",
    ),
    "foreign_load": Flag(
        meaning="another process held GPU memory, or others used more than a tenth of the"
        " processors",
        advice="wait for the machine to be free, or reserve it",
        pitfall="O9",
    ),
    "draft_tokens_adjusted": Flag(
        meaning="the server changed the number of draft tokens from what was asked",
        advice="ask for the resolved value, so that the budget in the table is the real one",
        pitfall="O1",
    ),
    "running_requests_capped": Flag(
        meaning="the server lowered max-running-requests by itself",
        advice="pin it to the same value on every arm",
        pitfall="C5",
    ),
    "steps_forced": Flag(
        meaning="the server forced the number of draft steps to another value",
        advice="ask for the resolved value",
        pitfall="O1",
    ),
    "accept_counters_mismatch": Flag(
        meaning="the server's acceptance counters do not add up with the tokens it sent",
        advice="do not use accept_len of this row; see the integrity findings",
        pitfall="M18",
    ),
}


def explain(name: str) -> str:
    """Say what a flag means; an unknown one is said to be unknown, never dropped."""
    known = FLAGS.get(name)
    return known.meaning if known else "raised by a newer or foreign program; not in the glossary"


def with_pitfall(pitfall: str) -> frozenset[str]:
    """Name the flags that guard one mistake of the checklist."""
    return frozenset(name for name, flag in FLAGS.items() if flag.pitfall == pitfall)
