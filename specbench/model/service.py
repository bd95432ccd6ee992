"""A running server and the events of its loading."""

from typing import Any, Literal

import msgspec

from specbench.model.facts import ServerFacts

Phase = Literal[
    "starting",
    "weights",
    "kv_cache",
    "autotune",
    "graphs",
    "draft",
    "binding",
    "warmup",
    "checking",
]


END_UNKNOWN = -1000
"""The exit status of a process that is gone in a way nobody saw; no signal has this number."""


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True, tag="load_progress"):
    """Loading goes on. `fraction` is of the phase, in [0, 1], or None; `eta_s` is of the whole."""

    phase: Phase
    fraction: float | None = None
    detail: str = ""
    elapsed_s: float = 0.0
    eta_s: float | None = None


class LoadFailure(msgspec.Struct, frozen=True, kw_only=True, tag="load_failure"):
    """A diagnosis: `cause` in one sentence, `hint` what to do, `evidence` the log lines.

    `pattern` is the stable machine-readable name ("cuda_oom", "port_in_use", "bad_flag", ...).
    """

    pattern: str
    cause: str
    hint: str
    evidence: tuple[str, ...] = ()


class ServiceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a ready server says of itself, and how the operating system sees it.

    `server` is what it says in the words of every product, `server_info` its own answers as
    received; `started_at` is the process start in UTC
    ISO 8601; `notices` are log lines that must be recorded although nothing failed (a silent cap,
    a greedy fall-back). `host_facts` describe the machine, `code_hash` covers the files that were
    deployed on it. `path_ms` is the round trip through the tunnel to the server, None without one.
    `lock` says whose lock kept others off the machine; None where none is taken.
    """

    url: str
    version: str | None = None
    pid: int | None = None
    started_at: str | None = None
    load_s: float | None = None
    server: ServerFacts = ServerFacts()
    server_info: dict[str, Any] = {}
    model_info: dict[str, Any] = {}
    notices: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    host_facts: dict[str, Any] = {}
    code_hash: str | None = None
    path_ms: float | None = None
    lock: str | None = None


LoadEvent = LoadProgress | LoadFailure
