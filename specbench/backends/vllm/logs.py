"""The log of vLLM 0.32: milestones of a load, what must be recorded, and why it failed."""

import re

from specbench.backends.failures import NO_MODULE, Diagnoser, Pattern
from specbench.backends.logs import Grammar, LogFollower
from specbench.model.service import Phase

_PREFIX = re.compile(
    r"^\((?:\w+)(?:[\w -]*)? pid=\d+\) (?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"\d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
_MILESTONES: tuple[tuple[str, Phase], ...] = (
    (r"^Resolved architecture|^Initializing a V1 LLM engine", "starting"),
    (r"^Loading drafter model", "draft"),
    (r"^Starting to load model|Loading \w+ checkpoint shards|^Loading weights took", "weights"),
    (r"^GPU KV cache size|^CPU KV cache size|^Available KV cache memory", "kv_cache"),
    (r"Capturing (?:CUDA|CPU) graphs|^Graph capturing finished", "graphs"),
    (r"^torch\.compile takes|^Compiling a graph|^Warming up model", "autotune"),
    (r"^init engine|^Starting vLLM (?:API )?server", "binding"),
    (r"Started server process|Waiting for application startup", "warmup"),
)
_NOTICES: tuple[tuple[str, str], ...] = (
    ("parameters_ignored", "parameters won't work with speculative decoding"),
    ("scheduled_tokens_capped", "based on the speculative decoding settings"),
    ("preemption", "is preempted"),
)
_READY = "Application startup complete"

PATTERNS: tuple[Pattern, ...] = (
    NO_MODULE,
    Pattern(
        name="bad_flag",
        regexp=r"error: (?:unrecognized arguments|ambiguous option|argument |the following arg)",
        cause="the server refused its command line: {message}",
        hint="this version has no such flag: correct it in the matrix, or give the flags of this "
        "version under algorithms.<name>.versions",
    ),
    Pattern(
        name="missing_weights",
        regexp=r"HFValidationError|Repo id must be in the form|"
        r"Invalid repository ID or local directory specified|Cannot find any model weights",
        cause="no model weights at the given path: {message}",
        hint="correct model.path or the draft's, or copy the weights to this host",
        fatal=False,
    ),
    Pattern(
        name="bad_speculative_config",
        regexp=r"validation errors? for SpeculativeConfig|Unsupported speculative method",
        cause="the speculative configuration was refused ({exception})",
        hint="see the lines after it; algorithms.<name>.flags changes it",
        rank=1,
        fatal=False,
    ),
    Pattern(
        name="port_in_use",
        regexp=r"Errno 98\] .*Address already in use|Address already in use",
        cause="the port is taken: {message}",
        hint="another server runs there; end it, or take another port in url",
    ),
    Pattern(
        name="cuda_oom",
        regexp=r"CUDA out of memory|torch\.OutOfMemoryError|HIP out of memory",
        cause="CUDA out of memory",
        hint="lower gpu-memory-utilization or max-num-seqs; see whether another process holds the "
        "GPU",
    ),
    Pattern(
        name="no_kv_room",
        regexp=r"No available memory for the cache blocks|is less than desired GPU memory util|"
        r"larger than the available KV cache memory",
        cause="no room for the KV cache: {message}",
        hint="raise gpu-memory-utilization, lower max-model-len, or use more GPUs (tp)",
    ),
    Pattern(
        name="engine_died",
        regexp=r"EngineDeadError|EngineCore encountered a fatal error",
        cause="the engine died while serving ({exception})",
        hint="the traceback in server.log tells why",
        rank=1,
        draws_traceback=True,
    ),
    Pattern(
        name="child_failed",
        regexp=r"Engine core initialization failed|WorkerProc initialization failed",
        cause="a process of the server failed while it loaded",
        hint="the lines before tell which and why",
        rank=2,
    ),
)


def message_of(line: str) -> str:
    """Return a line without the process, the time and the place that it begins with."""
    return _PREFIX.sub("", line, count=1).strip()


DIAGNOSER = Diagnoser(
    PATTERNS,
    message_of=message_of,
    is_stamped=lambda line: _PREFIX.match(line) is not None and " [" in line[:80],
    quotes=re.compile(r"^non-default args|^Received request"),
)


def log_reader() -> LogFollower:
    """Make a reader for the log of one server."""
    grammar = Grammar(_MILESTONES, _NOTICES, _READY, message_of)
    return LogFollower(grammar.read, DIAGNOSER.match)
