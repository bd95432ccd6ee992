"""Engines as subprocesses on free ports, and the few requests that tests make of them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

PATIENCE_S = 60.0
Json = dict[str, Any]


@dataclass
class Engine:
    """A started engine: its process, its log, and a client for its port."""

    process: subprocess.Popen[bytes]
    log_path: Path
    port: int = 0
    client: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=60))

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def until(self, pattern: str, patience_s: float = PATIENCE_S) -> re.Match[str]:
        """Wait for a log line; fail with the log when the process ends or patience does."""
        deadline = time.monotonic() + patience_s
        while True:
            ended = self.process.poll() is not None
            if found := re.search(pattern, self.log()):
                return found
            assert not ended, f"ended with {self.process.returncode}:\n{self.log()[-3000:]}"
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.log()[-3000:]}"
            time.sleep(0.02)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(self.url(path), **options)

    def post(self, path: str, body: Json | None = None, **options: Any) -> httpx.Response:
        return self.client.post(self.url(path), json=body or {}, **options)

    def generate(self, text: str = "The sea", **sampling: Any) -> Json:
        """One `/generate`, greedy unless told otherwise."""
        defaults = {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}
        body = {"text": text, "sampling_params": defaults | sampling}
        answer = self.post("/generate", body)
        answer.raise_for_status()
        decoded: Json = answer.json()
        return decoded

    def events(self, path: str, body: Json) -> list[Json]:
        """The decoded events of a stream, which must end with [DONE]."""
        answer = self.post(path, body | {"stream": True})
        answer.raise_for_status()
        lines = [line[6:] for line in answer.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def ended(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for the end of the process; return its status as a shell would show it."""
        status = self.process.wait(patience_s)
        return 128 - status if status < 0 else status

    def stop(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(15)


@contextlib.contextmanager
def launched(log_path: Path, *flags: str, port: int = 0, **env: str) -> Iterator[Engine]:
    """Start an engine without waiting for it."""
    command = [
        sys.executable, "-m", "specbench.engine", "--model-path", "test-model", "--port", str(port),
        "--time-scale", "0", "--load-seconds", "0", *flags,
    ]  # fmt: skip
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | env)
    engine = Engine(process, log_path, port)
    try:
        yield engine
    finally:
        engine.stop()


@contextlib.contextmanager
def serving(log_path: Path, *flags: str, **env: Any) -> Iterator[Engine]:
    """Start an engine and wait until it is ready."""
    with launched(log_path, *flags, **env) as engine:
        engine.port = int(engine.until(r"Uvicorn running on http://[^:]+:(\d+)").group(1))
        engine.until("fired up and ready to roll")
        yield engine


Start = Callable[..., contextlib.AbstractContextManager[Engine]]


@pytest.fixture
def serve(tmp_path: Path) -> Start:
    """Start an engine with flags of one's own: `with serve("--flag") as engine`."""
    return lambda *flags, **env: serving(tmp_path / "server.log", *flags, **env)


@pytest.fixture
def launch(tmp_path: Path) -> Start:
    """The same without waiting for readiness."""
    return lambda *flags, **env: launched(tmp_path / "server.log", *flags, **env)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A plain autoregressive engine with metrics."""
    path = tmp_path_factory.mktemp("plain") / "server.log"
    with serving(path, "--enable-metrics", "--decode-log-interval", "8") as engine:
        yield engine


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with DDTREE, budget 8, and metrics."""
    path = tmp_path_factory.mktemp("tree") / "server.log"
    flags = (
        "--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8",
        "--speculative-eagle-topk", "4", "--enable-metrics", "--decode-log-interval", "8",
    )  # fmt: skip
    with serving(path, *flags) as engine:
        yield engine
