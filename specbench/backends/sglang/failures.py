"""Why a server failed, read from its last lines: a name, a cause, a hint, the evidence.

Each pattern was taken from the sources or logs of SGLang 0.4.6 to 0.5.23. A failure usually leaves
several of them, because the death of one process is reported by its neighbours: the pattern nearest
to the cause outranks those that only report a death.
"""

import re
from collections.abc import Sequence

import msgspec

from specbench.backends.sglang.logs import is_stamped, message_of
from specbench.model.service import LoadFailure

EVIDENCE_LINES = 12
"""Lines of evidence kept with a diagnosis."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fail.

    `rank` orders patterns found together: 0 names a cause, 1 a symptom near to it, 2 the death of
    some process. `fatal` says that the line alone settles it; otherwise it matters only once the
    process has ended. `draws_traceback` says that the exception follows in the next lines.
    """

    name: str
    regexp: str
    cause: str
    hint: str
    rank: int = 0
    fatal: bool = True
    draws_traceback: bool = False


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        name="bad_flag",
        regexp=r"error: (?:unrecognized arguments|ambiguous option|argument |the following arg)",
        cause="the server refused its command line: {message}",
        hint="this version has no such flag: correct it in the matrix, or give the flags of this "
        "version under algorithms.<name>.versions",
    ),
    Pattern(
        name="unknown_algorithm",
        regexp=r"Unknown speculative algorithm name|invalid choice: .*speculative",
        cause="this build does not know the speculative algorithm: {message}",
        hint="install the build that has it (files: or python: in hosts.yaml), or drop the arm",
    ),
    Pattern(
        name="pp_unsupported",
        regexp=r"only supports pp_size == 1",
        cause="the algorithm runs with pp_size 1 only",
        hint="set pp: 1 for this algorithm, or exclude the cell",
    ),
    Pattern(
        name="device_unsupported",
        regexp=r"speculative decoding is not supported by \w+ on device",
        cause="the algorithm does not run on this device: {message}",
        hint="exclude the cell on this host",
    ),
    Pattern(
        name="cuda_oom",
        regexp=r"CUDA out of memory|torch\.OutOfMemoryError|HIP out of memory",
        cause="CUDA out of memory{phase}",
        hint="lower mem-fraction-static (room for graphs and activations), max-running-requests or "
        "cuda-graph-max-bs; see whether another process holds the GPU",
    ),
    Pattern(
        name="graph_capture",
        regexp=r"Capture (?:[\w ]*)(?:cuda|CUDA) graph failed",
        cause="capturing CUDA graphs failed: {message}",
        hint="lower mem-fraction-static or cuda-graph-max-bs",
        rank=1,
        draws_traceback=True,
    ),
    Pattern(
        name="no_kv_room",
        regexp=r"Not enough memory\. Please try to increase --mem-fraction-static",
        cause="the weights leave no room for the KV cache",
        hint="raise mem-fraction-static, use more GPUs (tp) or a smaller draft",
    ),
    Pattern(
        name="gpu_unbalanced",
        regexp=r"The memory capacity is unbalanced",
        cause="GPUs have unequal free memory: another process occupies one",
        hint="look at nvidia-smi; wait, or end the process if it is yours",
    ),
    Pattern(
        name="missing_weights",
        regexp=r"Cannot find any model weights with|"
        r"does not appear to have a file named|is not a local folder and is not a valid model",
        cause="no model weights at the given path: {message}",
        hint="correct model.path, or copy the weights to this host",
    ),
    Pattern(
        name="nccl",
        regexp=r"NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError",
        cause="the GPUs could not talk to each other (NCCL): {message}",
        hint="check NVLink, the network interface (NCCL_SOCKET_IFNAME) and stale processes on the "
        "GPUs; NCCL_DEBUG=INFO tells more",
    ),
    Pattern(
        name="internal_port_busy",
        regexp=r"is not available in \d+ seconds|Port is already in use\. dist_init_port",
        cause="an internal port of the server is taken: {message}",
        hint="an earlier server may still be ending; wait, or change the port in url",
    ),
    Pattern(
        name="port_in_use",
        regexp=r"\[Errno 98\].*address already in use|address already in use",
        cause="the HTTP port is taken by another process",
        hint="end the process that holds it if it is yours, or change the port in url",
    ),
    Pattern(
        name="kernel_version",
        regexp=r"(?:sglang-kernel|sgl_kernel|sgl-kernel).*(?:version|is not installed|>=|required)",
        cause="the installed kernels do not fit this SGLang: {message}",
        hint="reinstall sglang and its kernel package together",
    ),
    Pattern(
        name="scheduler_died",
        regexp=r"scheduler died during initialization \(exit code: -?\d+\)",
        cause="a scheduler died while loading: {message}",
        hint="exit code -9 is usually the system's OOM killer: see dmesg and free memory",
        rank=1,
    ),
    Pattern(
        name="scheduler_exception",
        regexp=r"Scheduler hit an exception:",
        cause="the scheduler failed: {exception}",
        hint="the traceback is in server.log",
        rank=1,
        draws_traceback=True,
    ),
    Pattern(
        name="hung",
        regexp=r"watchdog timeout \(self\.watchdog_timeout=",
        cause="a forward pass hung until the server's watchdog ended it",
        hint="look for NCCL or kernel trouble before this line; watchdog-timeout sets the patience",
    ),
    Pattern(
        name="detokenizer_silent",
        regexp=r"Health check failed\. Server couldn't get a response from detokenizer",
        cause="the server answered no health check for 20 s: hung, or far overloaded",
        hint="lower the concurrency; see server.log for the last batch",
        rank=1,
    ),
    Pattern(
        name="warmup_failed",
        regexp=r"Initialization failed\. warmup error:",
        cause="the first request failed: {message}",
        hint="the traceback before this line tells why",
        rank=1,
        draws_traceback=True,
    ),
    Pattern(
        name="kv_accounting",
        regexp=r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        cause="the KV cache ran out during a batch",
        hint="lower max-running-requests or the concurrency",
    ),
    Pattern(
        name="child_crashed",
        regexp=r"Subprocess \S+ \(pid=\d+\) crashed with exit code",
        cause="a process of the server crashed: {message}",
        hint="a native abort leaves no traceback: see the lines before, and dmesg",
        rank=2,
    ),
    Pattern(
        name="child_failed",
        regexp=r"Received sigquit from a child process|SIGQUIT received\.",
        cause="a process of the server failed",
        hint="the lines before tell which and why",
        rank=2,
    ),
)

_COMPILED = tuple((pattern, re.compile(pattern.regexp)) for pattern in PATTERNS)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout)\b")
# These lines quote what users and the command line said, which may be the text of an error.
_QUOTES = re.compile(r"^(?:server_args=|Receive: obj=|Finish: obj=|launch_command)")
_PHASES = (
    ("Load weight begin", " while loading weights"),
    ("KV Cache is allocated", " while allocating the KV cache"),
    ("Running FlashInfer autotune", " during autotune"),
    ("graph begin", " while capturing graphs"),
    ("Capturing batches", " while capturing graphs"),
    ("Uvicorn running on", " while serving"),
)


def match(line: str) -> Pattern | None:
    """Find the pattern that a line shows; None for a healthy line."""
    _, message = message_of(line)
    if _QUOTES.match(message):
        return None
    return next((pattern for pattern, regexp in _COMPILED if regexp.search(message)), None)


def diagnose(
    lines: Sequence[str], *, exit_status: int | None = None, stop_requested: bool = False
) -> LoadFailure | None:
    """Explain a failure by the lines of this one process, oldest first.

    `exit_status` is that of the ended process (minus the signal's number), None while it lives.
    None means that nothing has failed: no pattern in a living server, or a stop that was asked for,
    after which SGLang writes lines that look like crashes.
    """
    if stop_requested:
        return None
    found = [(number, pattern) for number, line in enumerate(lines) if (pattern := match(line))]
    if exit_status is None:
        found = [(number, pattern) for number, pattern in found if pattern.fatal]
    if found:
        number, pattern = min(found, key=lambda entry: (entry[1].rank, entry[0]))
        return _explain(lines, number, pattern)
    return None if exit_status is None else _unknown_end(lines, exit_status)


def _explain(lines: Sequence[str], number: int, pattern: Pattern) -> LoadFailure:
    _, message = message_of(lines[number])
    exception = _exception_after(lines, number) or _exception_before(lines, number)
    texts = {
        "message": message[:300],
        "exception": exception or message[:300],
        "phase": _phase_before(lines, number),
    }
    cause = pattern.cause.format_map(texts)
    if pattern.draws_traceback and exception and exception not in cause:
        cause = f"{cause} ({exception})"
    return LoadFailure(
        pattern=pattern.name,
        cause=cause,
        hint=pattern.hint,
        evidence=_around(lines, number, follow=pattern.draws_traceback),
    )


def _unknown_end(lines: Sequence[str], exit_status: int) -> LoadFailure:
    how = f"exit status {exit_status}" if exit_status >= 0 else f"signal {-exit_status}"
    exception = _exception_before(lines, len(lines))
    match exit_status:
        case -9 | 137:
            hint = "killed from outside: often the system's OOM killer; see dmesg and free memory"
        case 127:
            hint = "the command was not found on the host: correct command or python in hosts.yaml"
        case 0:
            hint = "a server must not end by itself: is the command one that stays in front?"
        case _:
            hint = "the last lines of server.log tell more"
    return LoadFailure(
        pattern="exited",
        cause=f"the server ended with {how}" + (f": {exception}" if exception else ""),
        hint=hint,
        evidence=tuple(lines[-EVIDENCE_LINES:]),
    )


def _exception_after(lines: Sequence[str], number: int) -> str | None:
    """Find the last exception before the next stamped line: of a chain, the one that got out."""
    found = None
    for line in lines[number + 1 : number + 200]:
        if is_stamped(line):
            break
        if _EXCEPTION.match(line):
            found = line.strip()[:300]
    return found


def _exception_before(lines: Sequence[str], number: int) -> str | None:
    for line in reversed(lines[max(0, number - 200) : number]):
        _, message = message_of(line)
        if _EXCEPTION.match(message):
            return message[:300]
    return None


def _phase_before(lines: Sequence[str], number: int) -> str:
    for line in reversed(lines[:number]):
        for milestone, phrase in _PHASES:
            if milestone in line:
                return phrase
    return ""


def _around(lines: Sequence[str], number: int, *, follow: bool) -> tuple[str, ...]:
    """Keep a few lines before the decisive one, more after it where a traceback follows."""
    before = 2 if follow else 4
    start = max(0, number - before)
    return tuple(line[:1000] for line in lines[start : start + EVIDENCE_LINES])
