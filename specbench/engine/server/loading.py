"""The load: phases of configurable length with SGLang's log lines, in its order."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specbench.engine.server.faults import NO_ROOM, ServerFaults, crash_scheduler
from specbench.engine.server.log import logger

PHASES = {"starting": 0.05, "weights": 0.45, "kv_cache": 0.05, "autotune": 0.15, "graphs": 0.2,
          "draft": 0.1, "warmup": 0.0}  # fmt: skip
"""The phases in order, with their shares of `--load-seconds`."""
SHARDS = 8
BAR = 10


def phase_seconds(args: dict[str, Any]) -> dict[str, float]:
    """Length of each phase. Raises ValueError for a phase that does not exist."""
    lengths = {phase: share * args["load_seconds"] for phase, share in PHASES.items()}
    for text in args["phase_seconds"]:
        phase, _, seconds = text.partition("=")
        if phase not in PHASES:
            raise ValueError(f"unknown phase {phase!r}; known: {', '.join(PHASES)}")
        lengths[phase] = float(seconds)
    return lengths


def check_phase(name: str | None) -> None:
    """Raise ValueError for a phase that does not exist."""
    if name is not None and name not in PHASES:
        raise ValueError(f"unknown phase {name!r}; known: {', '.join(PHASES)}")


class Loading:
    """Plays the load of one server; `startup_time` holds what each phase took, in seconds."""

    def __init__(self, args: dict[str, Any], facts: dict[str, Any], faults: ServerFaults) -> None:
        self.args, self.facts, self.faults = args, facts, faults
        self.lengths = phase_seconds(args)
        self.startup_time: dict[str, Any] = {}
        self.free_gb = float(facts["memory_gb"]) - 1.5

    def run(self) -> None:
        """Play every phase up to the binding of the port."""
        began = time.monotonic()
        with self.phase("starting"):
            logger.info("server_args=ServerArgs(%s)", _shown(self.args))
            logger.info("Init parallel begin.")
            self._sleep("starting")
            logger.info(
                "Init parallel ends. elapsed=%.2f s, mem usage=0.50 GB", self._s("starting")
            )
        with self.phase("weights"):
            self.startup_time["load_weight"] = self._load_weights(
                "weights", self.facts["weight_gb"]
            )
        with self.phase("kv_cache"):
            self._allocate()
        with self.phase("autotune"):
            self._autotune()
        with self.phase("graphs"):
            self._capture("target verify" if self._speculative else "target decode", "graphs")
        with self.phase("draft"):
            self._load_draft()
        self._sizes()
        self._timings(time.monotonic() - began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Begin a phase: die or hang in it if asked to, or break as a fault says."""
        if self.args["hang_load"] == name:
            logger.info("[engine] hanging in phase %s as asked", name)
            while True:
                time.sleep(3600)
        self.faults.during_load(name)
        yield
        if self.args["fail_load"] == name:
            crash_scheduler(
                f"RuntimeError: the engine failed in phase {name} as asked", loading=True
            )

    @property
    def _speculative(self) -> bool:
        return self.args["speculative_algorithm"] is not None

    def _s(self, phase: str) -> float:
        return self.lengths[phase]

    def _sleep(self, phase: str, share: float = 1.0) -> None:
        time.sleep(self._s(phase) * share)

    def _load_weights(self, phase: str, size_gb: float) -> float:
        logger.info("Load weight begin. avail mem=%.2f GB", self.free_gb)
        self._bar("Loading safetensors checkpoint shards: {percent:3d}% Completed | {done}/{all}",
                  SHARDS, self._s(phase) * (0.5 if phase == "draft" else 1.0))  # fmt: skip
        self.free_gb -= size_gb
        logger.info(
            "Load weight end. elapsed=%.2f s, type=SpecbenchReferenceEngine, avail mem=%.2f GB, "
            "mem usage=%.2f GB.", self._s(phase), self.free_gb, size_gb,
        )  # fmt: skip
        return self._s(phase)

    def _allocate(self) -> None:
        size = self.facts["memory_usage"]["kvcache"]
        if self.facts["kv_tokens"] == 0:
            crash_scheduler(NO_ROOM, loading=True)
        self._sleep("kv_cache")
        self.free_gb -= size
        logger.info(
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: %d, K size: %.2f GB, "
            "V size: %.2f GB", self.facts["kv_tokens"], size / 2, size / 2,
        )  # fmt: skip
        logger.info("Memory pool end. avail mem=%.2f GB", self.free_gb)
        self.startup_time["kv_cache_allocation"] = self._s("kv_cache")

    def _autotune(self) -> None:
        if self.args["disable_flashinfer_autotune"]:
            return
        logger.info("Running FlashInfer autotune with cache: (in memory)")
        self._sleep("autotune")
        logger.info("FlashInfer autotune completed.")

    def _capture(self, what: str, phase: str) -> None:
        sizes = self.facts["graph_bs"]
        graphs = self.startup_time.setdefault("cuda_graph", {})
        if not sizes:
            graphs[what.replace(" ", "_")] = 0.0
            return
        width = int(self.args["speculative_num_draft_tokens"] or 1)
        logger.info(
            "Capture %s CUDA graph begin. backend=full, num_tokens_per_req=%d, avail mem=%.2f GB",
            what, width, self.free_gb,
        )  # fmt: skip
        seconds = self._s(phase) * (0.5 if phase == "draft" else 1.0)
        head = f"Capturing batches (bs={{item}} avail_mem={self.free_gb:.2f} GB):"
        self._bar(head + " {percent:3d}%|{bar}| {done}/{all}", len(sizes), seconds, sizes[::-1])
        logger.info(
            "Capture %s CUDA graph end. bs=%s, elapsed=%.2f s, mem usage=0.60 GB, "
            "avail mem=%.2f GB", what, sizes, seconds, self.free_gb - 0.6,
        )  # fmt: skip
        self.free_gb -= 0.6
        graphs[what.replace(" ", "_")] = seconds

    def _load_draft(self) -> None:
        if self.args["speculative_draft_model_path"] is None:
            return
        self._load_weights("draft", self.facts["draft_gb"])
        logger.info("Memory pool end. avail mem=%.2f GB", self.free_gb)
        if self.args["speculative_algorithm"] in {"EAGLE", "EAGLE3", "STANDALONE"}:
            self._capture("draft decode", "draft")

    def _sizes(self) -> None:
        logger.info(
            "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%d, "
            "max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
            self.facts["kv_tokens"], self.args["chunked_prefill_size"],
            self.args["max_prefill_tokens"], self.facts["running"], self.facts["context_len"],
            self.free_gb,
        )  # fmt: skip

    def _timings(self, seconds: float) -> None:
        self.startup_time["scheduler_e2e"] = seconds
        shown = ", ".join(
            f"{key}={value:.2f}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.startup_time.items()
        )
        logger.info("Engine startup timings (s): %s, tokenizer_e2e=%.2f", shown, seconds)

    def _bar(self, form: str, steps: int, seconds: float, items: list[int] | None = None) -> None:
        """Write tqdm-like progress: carriage returns on standard error, one newline at the end."""
        for done in range(steps + 1):
            share = done / steps
            bar = "█" * int(share * BAR) + " " * (BAR - int(share * BAR))
            item = items[min(done, steps - 1)] if items else ""
            line = form.format(percent=int(100 * share), done=done, all=steps, bar=bar, item=item)
            sys.stderr.write("\r" + line)
            sys.stderr.flush()
            if done < steps:
                time.sleep(seconds / steps)
        sys.stderr.write("\n")
        sys.stderr.flush()


def _shown(args: dict[str, Any]) -> str:
    """Return the arguments as the first log line shows them, secrets hidden."""
    hidden = {"api_key", "admin_api_key"}
    return ", ".join(
        f"{key}={'***' if key in hidden and value else value!r}" for key, value in args.items()
    )
