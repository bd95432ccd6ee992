"""The real engines that install.sh put on this machine: versions, commands, environment."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired
from time import monotonic, sleep
from typing import Literal

import httpx

Product = Literal["sglang", "vllm", "llamacpp"]

VERSIONS: dict[Product, str] = {"sglang": "0.5.23", "vllm": "0.32.0", "llamacpp": "b11434"}

# One thread each: on shared cores a second one waits for the first more than it works.
COMMON_ENV = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "NO_PROXY": "127.0.0.1",
}
ENV: dict[Product, dict[str, str]] = {
    "sglang": {"SGLANG_USE_CPU_ENGINE": "1"},
    "vllm": {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        "NUMBA_NUM_THREADS": "1",
    },
    "llamacpp": {},
}


HEADS: dict[Product, tuple[str, ...]] = {
    "sglang": ("python", "-m", "sglang.launch_server", "--model-path"),
    "vllm": ("vllm", "serve"),
    "llamacpp": ("llama-server", "--model"),
}
# float32: a server with speculation then emits what the one without emits, token for token.
SIZES: dict[Product, str] = {
    "sglang": (
        "--device cpu --attention-backend intel_amx --dtype float32"
        " --max-total-tokens 32768 --max-running-requests 32 --context-length 2048"
        " --page-size 1 --enable-metrics --served-model-name tiny"
    ),
    "vllm": (
        "--dtype float32 --max-model-len 2048 --max-num-seqs 32 --enforce-eager"
        " --enable-per-request-metrics --served-model-name tiny"
    ),
    "llamacpp": (
        "--alias tiny --threads 1 --ctx-size 8192 --parallel 4 --metrics --offline --no-ui"
    ),
}


def folder() -> Path:
    """Where install.sh puts the engines."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SPECBENCH_ENGINES") or cache / "specbench-engines")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mode:
    """One way to start a product: flags beyond the common ones, and further environment."""

    flags: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def _vllm(speculation: str) -> Mode:
    metrics = "--per-request-spec-decode-metrics"
    return Mode(
        flags=(metrics, "detailed", "--speculative-config", speculation),
        env={"VLLM_SERVER_DEV_MODE": "1"},
    )


def modes(product: Product) -> dict[str, Mode]:
    """Plain decoding ("off") and the speculative modes that a product has here."""
    models = folder() / "models"
    match product:
        case "sglang":
            return {
                "off": Mode(),
                "ngram": Mode(flags=_words("NGRAM --speculative-num-draft-tokens 8")),
                "eagle-tree": Mode(
                    flags=_words(
                        f"EAGLE --speculative-draft-model-path {models}/eagle"
                        " --speculative-num-steps 3 --speculative-eagle-topk 4"
                        " --speculative-num-draft-tokens 8"
                    )
                ),
                "standalone": Mode(
                    flags=_words(
                        f"STANDALONE --speculative-draft-model-path {models}/draft"
                        " --speculative-num-steps 3 --speculative-eagle-topk 1"
                        " --speculative-num-draft-tokens 4"
                    )
                ),
            }
        case "vllm":
            return {
                "off": Mode(),
                "ngram": _vllm(
                    '{"method": "ngram", "num_speculative_tokens": 4,'
                    ' "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
                ),
                "eagle": _vllm(
                    f'{{"method": "eagle", "model": "{models}/eagle_vllm",'
                    ' "num_speculative_tokens": 3}'
                ),
                "draft-model": _vllm(
                    f'{{"method": "draft_model", "model": "{models}/draft",'
                    ' "num_speculative_tokens": 3}'
                ),
                "suffix": _vllm('{"method": "suffix", "num_speculative_tokens": 8}'),
            }
        case "llamacpp":
            draft = f"draft-simple --spec-draft-model {models}/draft.gguf --spec-draft-n-max 4"
            simple = "ngram-simple --spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 4"
            mod = (
                "ngram-mod --spec-ngram-mod-n-match 2"
                " --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 4"
            )
            kinds = {"draft-model": draft, "ngram-simple": simple, "ngram-mod": mod}
            return {
                "off": Mode(),
                **{
                    name: Mode(flags=("--spec-type", *words.split()))
                    for name, words in kinds.items()
                },
            }


def _words(text: str) -> tuple[str, ...]:
    return ("--speculative-algorithm", *text.split())


def command(product: Product, port: int, model: str | Path, *flags: str) -> list[str]:
    """The command line of a server on loopback."""
    at = ["--host", "127.0.0.1", "--port", str(port)]
    program, *head = HEADS[product]
    binary = str(folder() / product / "bin" / program)
    return [binary, *head, str(model), *at, *SIZES[product].split(), *flags]


def target(product: Product) -> Path:
    """The target model in the form that the product reads."""
    return folder() / "models" / ("target.gguf" if product == "llamacpp" else "target")


def start(product: Product, log: Path, words: list[str], **env: str) -> Popen[bytes]:
    """Start a server in a session of its own, its output in a log file."""
    settings = {**os.environ, **COMMON_ENV, **ENV[product], **env}
    with log.open("wb") as out:
        return Popen(
            words, stdin=DEVNULL, stdout=out, stderr=STDOUT, env=settings, start_new_session=True
        )


def wait_ready(process: Popen[bytes], port: int, seconds: float) -> bool:
    """Whether the server answers /health with 200 before it ends or the time is up."""
    deadline = monotonic() + seconds
    while process.poll() is None and monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=30.0).status_code == 200:
                return True
        except httpx.TransportError:
            pass
        sleep(0.2)
    return False


def stop(process: Popen[bytes], seconds: float = 60.0) -> None:
    """End a server and what it started: politely, and by force what has not ended in time."""
    process.terminate()
    with suppress(TimeoutExpired):
        process.wait(seconds)
    deadline = monotonic() + seconds
    while lives(process.pid) and monotonic() < deadline:
        sleep(0.1)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def lives(group: int) -> bool:
    """Whether a process group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def running(product: Product, mode: Mode, port: int, log: Path) -> Iterator[str]:
    """A ready server of a product, as its address; stopped at the end."""
    words = command(product, port, target(product), *mode.flags)
    process = start(product, log, words, **mode.env)
    try:
        if not wait_ready(process, port, 300.0):
            message = f"{product} did not become ready; its log is {log}"
            raise RuntimeError(message)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)
