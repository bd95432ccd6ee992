"""Each way to fail has its diagnosis; a healthy log has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.sglang.failures import PATTERNS, diagnose, match
from specbench.model.service import END_UNKNOWN

STAMP = "[2026-03-01 10:00:00 TP0] "

# One line for each row of the table of fatal patterns, as SGLang 0.4.6 to 0.5.23 writes them.
LINES = [
    ("bad_flag", "launch_server.py: error: unrecognized arguments: --speculative-ddtree-budget 16"),
    ("bad_flag", "launch_server.py: error: ambiguous option: --pp could match --pp-size"),
    (
        "no_module",
        (
            "/usr/bin/python3: Error while finding module specification for 'sglang.launch_server' "
            "(ModuleNotFoundError: No module named 'sglang')"
        ),
    ),
    ("unknown_algorithm", "ValueError: Unknown speculative algorithm name: DDTREE"),
    (
        "pp_unsupported",
        "ValueError: Currently DFLASH speculative decoding only supports pp_size == 1.",
    ),
    (
        "device_unsupported",
        "DFLASH speculative decoding is not supported by CpuSRTPlatform on device 'cpu'.",
    ),
    (
        "no_kv_room",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    ("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("graph_capture", STAMP + "Capture cuda graph failed: unspecified launch failure"),
    (
        "gpu_unbalanced",
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
            "processes."
        ),
    ),
    ("missing_weights", "RuntimeError: Cannot find any model weights with `/models/nothing`"),
    ("nccl", "RuntimeError: NCCL error: unhandled system error"),
    ("nccl", "torch.distributed.DistBackendError: ncclUnhandledCudaError: Call to CUDA failed"),
    ("internal_port_busy", "ValueError: port 30233 is not available in 30 seconds"),
    ("internal_port_busy", "RuntimeError: Port is already in use. dist_init_port=31001"),
    (
        "port_in_use",
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): "
            "address already in use"
        ),
    ),
    ("scheduler_died", STAMP + "Rank 0 scheduler died during initialization (exit code: -9)"),
    (
        "scheduler_exception",
        STAMP + "Scheduler hit an exception: Traceback (most recent call last):",
    ),
    ("child_failed", STAMP + "Received sigquit from a child process. It usually means failure."),
    ("child_failed", STAMP + "SIGQUIT received. signum=None, frame=None."),
    (
        "child_crashed",
        STAMP + "Subprocess scheduler_0 (pid=17) crashed with exit code -6. Triggering SIGQUIT",
    ),
    ("hung", STAMP + "Watchdog: watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
    (
        "detokenizer_silent",
        STAMP + "Health check failed. Server couldn't get a response from detokenizer for last 20 "
        "seconds. tic start time: 1",
    ),
    ("warmup_failed", STAMP + "Initialization failed. warmup error: Traceback"),
    ("kv_accounting", STAMP + "Decode out of memory. Try to lower your batch size."),
    ("kv_accounting", STAMP + "Prefill out of memory. Try to lower your batch size."),
    (
        "kernel_version",
        "Exception: sglang-kernel is installed with version 0.4.5, which is less than required",
    ),
]

HEALTHY = f"""\
{STAMP}server_args=ServerArgs(model_path='/m', log='CUDA out of memory')
Ignore import error when loading sglang.srt.models.foo: No module named 'bar'
{STAMP}Load weight begin. avail mem=140.11 GB
{STAMP}Memory pool end. avail mem=20.00 GB
{STAMP}Max running requests is reset to 48 for speculative decoding.
{STAMP}KV cache pool is full. Retract requests. #retracted_reqs: 3
{STAMP}DFLASH non-greedy verification is unavailable on this build/device; falling back to greedy \
argmax verification.
{STAMP}Decode batch, #running-req: 1, #token: 10, accept len: 2.00, #queue-req: 0
{STAMP}Receive: obj=GenerateReqInput(text='what does NCCL error mean? Scheduler hit an exception:')
{STAMP}The server is fired up and ready to roll!
INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 503 Service Unavailable
""".splitlines()


@pytest.mark.parametrize(("name", "line"), LINES)
def test_each_line_has_its_diagnosis_with_cause_hint_and_evidence(name: str, line: str) -> None:
    fatal = next(pattern for pattern in PATTERNS if pattern.name == name).fatal
    failure = diagnose([*HEALTHY, line], exit_status=None if fatal else 1)

    assert failure is not None
    assert failure.pattern == name
    assert line in failure.evidence
    assert failure.cause
    assert failure.hint


def test_every_pattern_is_shown_by_a_line_of_this_file() -> None:
    assert {name for name, _ in LINES} == {pattern.name for pattern in PATTERNS}


def test_a_healthy_log_raises_no_alarm() -> None:
    assert [line for line in HEALTHY if match(line)] == []
    assert diagnose(HEALTHY) is None


def test_the_cause_outranks_the_deaths_that_it_brings() -> None:
    lines = [
        STAMP + "Capture target verify CUDA graph begin. backend=fa3",
        STAMP + "Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB",
        STAMP + "Scheduler hit an exception: Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        STAMP + "Received sigquit from a child process.",
    ]

    failure = diagnose(lines, exit_status=-9)

    assert failure is not None
    assert failure.pattern == "cuda_oom"
    assert failure.cause == "CUDA out of memory while capturing graphs"


def test_out_of_memory_at_graph_capture_is_not_put_down_to_the_autotune_before_it() -> None:
    autotuned = [
        STAMP + "Running FlashInfer autotune with cache: (in memory)",
        STAMP + "FlashInfer autotune completed.",
    ]
    said = "CUDA out of memory. Tried to allocate 1.50 GiB."
    captured = diagnose([*autotuned, f"Exception: Capture cuda graph failed: {said}"])
    between = diagnose([*autotuned, f"torch.OutOfMemoryError: {said}"])
    within = diagnose([autotuned[0], f"torch.OutOfMemoryError: {said}"])

    assert captured is not None
    assert captured.cause == "CUDA out of memory while capturing graphs"
    assert between is not None
    assert between.cause == "CUDA out of memory after autotune"
    assert within is not None
    assert within.cause == "CUDA out of memory during autotune"


@pytest.mark.parametrize(
    "line",
    [
        "/opt/bin/python3: No module named sglang",
        (
            "/opt/bin/python3: Error while finding module specification for 'sglang.launch_server' "
            "(ModuleNotFoundError: No module named 'sglang')"
        ),
    ],
)
def test_a_missing_server_names_the_interpreter_and_the_ways_out(line: str) -> None:
    failure = diagnose([line], exit_status=1)

    assert failure is not None
    assert failure.cause == "the interpreter /opt/bin/python3 has no package 'sglang'"
    assert "python in hosts.yaml" in failure.hint
    assert "specbench.engine" in failure.hint


def test_a_package_that_the_server_misses_is_to_be_installed_and_no_guess_is_made() -> None:
    failure = diagnose(["ModuleNotFoundError: No module named 'flash_attn'"], exit_status=1)

    assert failure is not None
    assert "No module named 'flash_attn'" in failure.cause
    assert "install the package" in failure.hint


def test_a_missing_library_is_no_missing_command() -> None:
    said = "llama-server: error while loading shared libraries: libcudart.so.12: cannot open"
    library = diagnose([said], exit_status=127)
    command = diagnose(["sh: 1: llama-server: not found"], exit_status=127)

    assert library is not None
    assert "LD_LIBRARY_PATH" in library.hint
    assert command is not None
    assert "command was not found" in command.hint


def test_an_end_that_nobody_saw_is_no_signal_and_no_lack_of_memory() -> None:
    failure = diagnose(["the last words"], exit_status=END_UNKNOWN)

    assert failure is not None
    assert "nobody saw" in failure.cause
    assert "signal" not in failure.cause
    assert "OOM" not in failure.hint


def test_the_last_line_of_a_traceback_is_the_cause() -> None:
    lines = [
        STAMP + "Scheduler hit an exception: Traceback (most recent call last):",
        '  File "scheduler.py", line 1, in run',
        "KeyError: 'first'",
        "",
        "During handling of the above exception, another exception occurred:",
        "sglang.errors.WorkerError: draft and target vocabularies differ",
    ]

    failure = diagnose(lines)

    assert failure is not None
    assert "draft and target vocabularies differ" in failure.cause


def test_a_stop_that_was_asked_for_is_no_crash() -> None:
    lines = [
        STAMP + "SIGTERM received. signum=15. Draining requests and shutting down...",
        STAMP + "Subprocess detokenizer (pid=9) crashed with exit code -15. Triggering SIGQUIT",
        STAMP + "SIGQUIT received. signum=None",
    ]

    assert diagnose(lines, exit_status=-9, stop_requested=True) is None


@pytest.mark.parametrize(
    ("status", "said"), [(0, "exit status 0"), (3, "exit status 3"), (-9, "signal 9")]
)
def test_an_end_without_a_known_line_is_still_explained(status: int, said: str) -> None:
    failure = diagnose(["something unheard of"], exit_status=status)

    assert failure is not None
    assert said in failure.cause
    assert failure.evidence == ("something unheard of",)


@given(st.lists(st.text()), st.none() | st.integers(-64, 255))
def test_any_log_is_read_and_an_ended_process_is_always_explained(
    lines: list[str], status: int | None
) -> None:
    failure = diagnose(lines, exit_status=status)

    assert (failure is not None) or (status is None)
