"""Load: what is sent, in which shape, and what came back - one record a request."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Api = Literal["generate", "chat", "completions"]
Count = Annotated[int, Meta(ge=1, le=10**9)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]

FEWEST_A_SLOT = 8
"""Requests a slot below which the tail of the last replies decides the throughput of a trial."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt of a dataset: chat `messages`, or raw `text`, or `input_ids`."""

    prompt_id: str
    category: str = ""
    messages: tuple[dict[str, str], ...] = ()
    text: str | None = None
    input_ids: tuple[int, ...] = ()
    max_tokens: int | None = None


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts in the order of their file; `sha256` is of their content, not of its formatting."""

    name: str
    sha256: str
    prompts: tuple[Prompt, ...]


def whole_passes(requests: int, prompts: int) -> int:
    """Round a number of requests up to whole passes over the prompts; fewer are one part pass."""
    return requests if requests <= prompts else -(-requests // prompts) * prompts


class SamplingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a matrix says of sampling: each field is an entry of its workload and a request factor.

    `backends.openai.requests` writes it into requests.
    """

    temperature: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    top_p: Fraction = 1.0
    top_k: Annotated[int, Meta(ge=-1, le=2**30)] = -1
    min_p: Fraction = 0.0
    max_tokens: Count = 512
    ignore_eos: bool = False


class Sampling(SamplingOptions, frozen=True, kw_only=True):
    """Every sampling field, sent explicitly so that no server default can differ between arms."""

    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go, and which product answers ("": the default one).

    `api_key_env` names the variable that holds the token, never the token.
    """

    url: str
    model: str
    api: Api = "chat"
    engine: str = ""
    api_key_env: str | None = None
    verify_tls: bool = True
    use_proxy: bool = False


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """Closed loop: `concurrency` slots, each sends its next request when the last one ended.

    `stagger_s` spreads the first sends evenly over that many seconds.
    """

    concurrency: int
    stagger_s: float = 0.0


class Open(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Open loop at `rate` requests a second on an absolute schedule; latency counts from it.

    `process`: constant, poisson, or gamma with `burstiness` (shape k; 1 = Poisson).
    `max_in_flight` bounds the client, None is unbounded.
    """

    rate: float
    process: Literal["constant", "poisson", "gamma"] = "poisson"
    burstiness: float = 1.0
    max_in_flight: int | None = None


class Ramp(msgspec.Struct, frozen=True, kw_only=True, tag="ramp"):
    """Open loop whose rate goes through `steps` of (rate, seconds), linear when `linear`."""

    steps: tuple[tuple[float, float], ...]
    linear: bool = False


class Replay(msgspec.Struct, frozen=True, kw_only=True, tag="replay"):
    """Requests at the given offsets in seconds from the start (a trace), divided by `speed`."""

    offsets_s: tuple[float, ...]
    speed: float = 1.0


Shape = Closed | Open | Ramp | Replay


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """When measured load ends: whichever is reached first; then drain or abort."""

    requests: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    on_end: Literal["drain", "abort"] = "drain"
    drain_timeout_s: float = 600.0


class ServiceLevels(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of every request, in milliseconds; None asks nothing of that latency."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One trial's load, complete: it can be written to a file and driven on another machine.

    `prompts_path` is a JSON-lines file of Prompt; prompts are taken in file order (the planner
    shuffled them), again from the start when they run out. The first `warmup_prompts` of them are
    for warm-up alone; without such, warm-up takes the measured ones. `salt` isolates the server's
    prefix cache between trials. `warmup_requests` are sent first, at the same shape, and recorded
    with phase "warmup". `processes` 0 means: choose. `stall_timeout_s` bounds the silence inside a
    reply, None is unbounded. A load on which nothing comes of any request for `silence_timeout_s`
    is ended.
    """

    target: Target
    prompts_path: str
    sampling: Sampling
    shape: Shape
    stop: Stop
    warmup_requests: int = 0
    warmup_prompts: int = 0
    request_timeout_s: float = 600.0
    stall_timeout_s: float | None = None
    silence_timeout_s: float = 50.0
    connect_timeout_s: float = 10.0
    salt: str = ""
    seed: int = 0
    processes: int = 0
    keep_text: bool = False
    retokenise: bool = False


Reason = Literal[
    "",
    "connect_refused",
    "connect_timeout",
    "dns",
    "tls",
    "closed_early",
    "http_4xx",
    "http_429",
    "http_5xx",
    "redirect",
    "bad_json",
    "bad_http",
    "error_event",
    "no_first_byte",
    "stalled",
    "timeout",
    "no_usage",
    "bad_count",
    "line_too_long",
    "too_large",
    "aborted",
    "server_abort",
]


class RequestRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One request as it happened: a row of requests.parquet. Failed ones are rows too.

    `prompt_id` and `prompt_pass`, the turn through the prompts, name a request in every trial of a
    workload. All `*_ns` are monotonic nanoseconds since the drive's start
    (`DriveReport.start_unix_ns` correlates with logs). `chunk_ns[i]` is the arrival of the i-th
    event that carried content or reasoning and `chunk_tokens[i]` the tokens that it added (from
    the server's cumulative counts; empty where the server gives none). `stamp` says how arrivals
    were taken. `resent`: it met a connection that was closed idle, and went out again on a fresh
    one. `output_tokens` counts by the server, of which `reasoning_tokens` were reasoning; None
    where it was not said. `max_tokens` were asked for, and `text_bytes` of text came.
    `first_doubt_ns`, `last_doubt_ns`: how much earlier than their stamps the first chunk and the
    last may have left the server. The `spec_*` figures are the server's own counters: verify steps,
    accepted drafts without the bonus, proposed drafts, and `spec_histogram[k]` = steps that
    accepted exactly k drafts. `spec_steps_of` says whether the server counted the steps, or they
    follow from its other counts because it counts only those that had a draft
    (`spec_drafted_steps`), or none.
    """

    rid: str
    prompt_id: str
    category: str = ""
    prompt_pass: int = 0
    phase: Literal["warmup", "measured"] = "measured"
    worker: int = 0
    slot: int = 0
    resent: bool = False
    intended_ns: int = 0
    written_ns: int | None = None
    first_byte_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int | None = None
    status: Literal["ok", "failed", "truncated", "aborted"] = "ok"
    reason: Reason = ""
    detail: str = ""
    http_status: int | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    text_bytes: int | None = None
    cached_tokens: int | None = None
    retractions: int | None = None
    chunk_ns: list[int] = []
    chunk_tokens: list[int] = []
    tokens_in_first_chunk: int | None = None
    count_source: Literal["server", "retokenised", ""] = "server"
    spec_steps_of: Literal["counted", "derived"] = "counted"
    spec_drafted_steps: int | None = None
    spec_verify_ct: int | None = None
    spec_accepted: int | None = None
    spec_proposed: int | None = None
    spec_histogram: list[int] | None = None
    spec_accept_length_server: float | None = None
    stamp: Literal["kernel", "read"] = "read"
    read_lag_max_us: float | None = None
    inexact_stamps: int = 0
    first_doubt_ns: int | None = None
    last_doubt_ns: int | None = None
    output_sha256: str | None = None
    text: str | None = None
    output_ids: list[int] | None = None


class DriveProgress(msgspec.Struct, frozen=True, kw_only=True, tag="drive_progress"):
    """A glance at a drive in progress, about twice a second; never a measurement.

    `silent_s` is for how long nothing came of any request in flight.
    """

    elapsed_s: float
    in_flight: int
    finished: int
    failed: int
    output_tokens: int
    accept_len: float | None = None
    phase: Literal["warmup", "measured"] = "measured"
    silent_s: float = 0.0


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """What the trial's own figures are worth, and the bound on their error.

    `read_lag_us_*`: kernel stamp against the end of the turn that read, which no read of it is
    later than; `exact_share`: reads that held one event;
    `start_late_us_*`: intended send against the write; `turnaround_us_*`: end of a reply against
    the next send of its slot (closed loop); `cpu_share`: of one core, of the busiest process;
    `cpu_s`: of all processes, from the start to the last row. `ttft_error_us` and `gap_error_us`
    must hold against the truth for at least 99 % of requests, and of gaps. `flags` holds
    `client_saturated` and `clock_step` where they apply.
    """

    stamp: Literal["kernel", "read", "mixed"]
    processes: int
    events: int
    reads: int
    exact_share: float | None = None
    read_lag_us_p50: float | None = None
    read_lag_us_p99: float | None = None
    read_lag_us_max: float | None = None
    start_late_us_p50: float | None = None
    start_late_us_p99: float | None = None
    turnaround_us_p50: float | None = None
    turnaround_us_p99: float | None = None
    reconnects: int = 0
    cpu_share: float | None = None
    cpu_s: float | None = None
    socket_backlog_max: int | None = None
    clock_offset_drift_us: float | None = None
    clock_steps: int = 0
    rtt_us_p50: float | None = None
    ttft_error_us: float | None = None
    gap_error_us: float | None = None
    flags: tuple[str, ...] = ()


class DriveReport(msgspec.Struct, frozen=True, kw_only=True, tag="drive_report"):
    """The end of a drive: its clock, its window and its accuracy.

    `measured_start_ns`/`measured_end_ns` bound the measured phase; `window_start_ns`/
    `window_end_ns` the part of it in which the number of requests in flight was at the target
    (None where there was no such part). `gave_up` says why the load was ended before all was
    asked. All on the records' clock.
    """

    start_unix_ns: int
    measured_start_ns: int
    measured_end_ns: int
    window_start_ns: int | None
    window_end_ns: int | None
    requests: int
    failed: int
    interrupted: bool
    accuracy: Accuracy = msgspec.field(name="certificate")  # its name since the first recordings
    gave_up: str = ""


DriveEvent = DriveProgress | DriveReport
