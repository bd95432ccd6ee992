"""The log of llama.cpp's server (b11434): milestones of a load, and why it failed."""

import re

from specbench.backends.failures import Diagnoser, Pattern
from specbench.backends.logs import Grammar, LogFollower
from specbench.model.service import Phase

_PREFIX = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} [DIWE] ")
_MILESTONES: tuple[tuple[str, Phase], ...] = (
    (r"llama_server: initializing|main: initializing", "starting"),
    (r"loading draft model", "draft"),
    (r"load_model: loading model", "weights"),
    (r"load_model: initializing, n_slots", "kv_cache"),
    (r"warming up the model", "warmup"),
    (r"model loaded", "binding"),
)
_NOTICES: tuple[tuple[str, str], ...] = (
    ("context_reduced", "n_ctx_seq (%d) <"),
    ("draft_incompatible", "the draft model is not compatible"),
    ("speculation_off", "speculative decoding is not supported"),
)
_READY = "listening on http"

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        name="bad_flag",
        regexp=r"^error: (?:invalid argument|unknown argument|the argument has been removed)|"
        r"^error while handling argument",
        cause="the server refused its command line: {message}",
        hint="this build has no such flag: correct it in the matrix, or give the flags of this "
        "build under algorithms.<name>.flags",
    ),
    Pattern(
        name="missing_draft",
        regexp=r"load_model: failed to load draft model",
        cause="the draft model could not be loaded: {message}",
        hint="correct the factor draft, or copy the file to this host",
    ),
    Pattern(
        name="missing_weights",
        regexp=r"load_model: failed to load model",
        cause="the model could not be loaded: {message}",
        hint="model.path must name a GGUF file on this host",
    ),
    Pattern(
        name="port_in_use",
        regexp=r"couldn't bind HTTP server socket",
        cause="the port is taken: {message}",
        hint="another server runs there; end it, or take another port in url",
    ),
    Pattern(
        name="cuda_oom",
        regexp=r"cudaMalloc failed: out of memory|failed to allocate .* buffer",
        cause="out of memory: {message}",
        hint="lower ctx-size, parallel or n-gpu-layers; see whether another process holds the GPU",
    ),
    Pattern(
        name="assertion",
        regexp=r"GGML_ASSERT|ggml_abort",
        cause="the server ended itself: {message}",
        hint="a defect, or a setting that this model does not allow; see server.log",
        rank=1,
    ),
    Pattern(
        name="exiting",
        regexp=r"exiting due to (?:model loading error|HTTP server error)",
        cause="the server could not start: {message}",
        hint="the lines before tell why",
        rank=2,
    ),
)


def message_of(line: str) -> str:
    """Return a line without its time and level."""
    return _PREFIX.sub("", line, count=1).strip()


DIAGNOSER = Diagnoser(
    PATTERNS,
    message_of=message_of,
    is_stamped=lambda line: _PREFIX.match(line) is not None,
    quotes=re.compile(r"^srv .*log_server_r:.*request:"),
)


def log_reader() -> LogFollower:
    """Make a reader for the log of one server."""
    grammar = Grammar(_MILESTONES, _NOTICES, _READY, message_of)
    return LogFollower(grammar.read, DIAGNOSER.match)
