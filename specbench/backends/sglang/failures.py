"""Why an SGLang server failed: what its lines mean.

Each pattern was taken from the sources or logs of SGLang 0.4.6 to 0.5.23.
"""

import re

from specbench.backends.failures import NO_MODULE, Diagnoser, Pattern
from specbench.backends.sglang.logs import is_stamped, message_of

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
        r"does not appear to have a file named|^OSError: Repo id must be in the form|"
        r"is not a local folder and is not a valid model",
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
        hint="the lines before tell why; where the exit code is -9 it was killed from outside: "
        "dmesg tells whether by the system's OOM killer",
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

# These lines quote what users and the command line said, which may be the text of an error.
_QUOTES = re.compile(r"^(?:server_args=|Receive: obj=|Finish: obj=|launch_command)")
_PHASES = (
    ("Load weight begin", " while loading weights"),
    ("KV Cache is allocated", " while allocating the KV cache"),
    ("Running FlashInfer autotune", " during autotune"),
    ("FlashInfer autotune completed", " after autotune"),
    ("graph begin", " while capturing graphs"),
    ("Capture cuda graph failed", " while capturing graphs"),
    ("Capturing batches", " while capturing graphs"),
    ("Uvicorn running on", " while serving"),
)


DIAGNOSER = Diagnoser(
    PATTERNS,
    message_of=lambda line: message_of(line)[1],
    is_stamped=is_stamped,
    quotes=_QUOTES,
    phases=_PHASES,
)
match = DIAGNOSER.match
diagnose = DIAGNOSER.diagnose
