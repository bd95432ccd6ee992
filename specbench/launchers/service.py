"""A service under way: waited out, identified, watched."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from specbench.backends.client import ControlClient
from specbench.errors import HostError, LoadFailed
from specbench.hosts.telemetry import Telemetry
from specbench.launchers.context import LaunchContext
from specbench.launchers.logbook import Logbook
from specbench.launchers.server_process import Process
from specbench.launchers.waiting import LoadClock, Patience, Stillness
from specbench.model.facts import Finding
from specbench.model.plan import LaunchSpec
from specbench.model.secrets import NO_SECRETS, Secrets
from specbench.model.service import LoadFailure, LoadProgress, ServiceFacts
from specbench.model.telemetry import GpuSummary, HostSummary
from specbench.recording.durable import write_private
from specbench.remote.shell import HostKeyRefused

HEALTH_TIMEOUT_S = 5.0
SETTLE_S = 2.0
PATH_PROBES = 5
CONSEQUENCES = frozenset({"exited", "nccl", "child_crashed", "child_failed"})
"""Deaths that may well have their cause elsewhere: a reboot, or another node."""


class Service(Protocol):
    """A running server as a run sees it: one process, or several that answer as one."""

    url: str
    facts: ServiceFacts

    @property
    def phase_times(self) -> dict[str, float]:
        """Seconds that each phase of the load took."""
        ...

    @property
    def kept(self) -> bool:
        """Whether the server is left running."""
        ...

    @property
    def pid(self) -> int | None:
        """The process id on its host."""
        ...

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the host did not answer the last look."""
        ...

    def until_ready(self) -> Iterator[LoadProgress]:
        """Wait until the server is ready, and is the one asked for. Raises LoadFailed."""
        ...

    def check(self) -> LoadFailure | None:
        """Look whether the service still lives."""
        ...

    def flush(self) -> bool:
        """Empty the prefix cache; False if the server refused."""
        ...

    def keep(self) -> None:
        """Leave the server running where its launcher would stop it."""
        ...

    def notices(self) -> tuple[str, ...]:
        """Return the lines of the log that must be recorded, up to now."""
        ...

    def gpu_summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary | None:
        """Summarise the GPUs over a span of this machine's wall clock."""
        ...

    def host_summary(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary | None:
        """Summarise the host over the same span."""
        ...


class RunningService:
    """One service from start to stop. A launcher makes it, and stops it.

    `url` is reachable from here. `facts` and `phase_times` are complete once `until_ready` has
    ended.
    """

    def __init__(
        self,
        *,
        spec: LaunchSpec,
        url: str,
        process: Process,
        client: ControlClient,
        block_dir: Path,
        mirror: bool,
        tunnelled: bool = False,
        patience: Patience,
        history: Mapping[str, float] | None = None,
        context: LaunchContext,
        telemetry: Telemetry | None = None,
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        self.spec = spec
        self.url = url
        self.context = context
        self.telemetry = telemetry
        self.facts = ServiceFacts(url=url)
        self.phase_times: dict[str, float] = {}
        self.kept = False
        self._process = process
        self._client = client
        self._block_dir = block_dir
        self._tunnelled = tunnelled
        self._patience = patience
        self._secrets = secrets
        mirrored = block_dir / "server.log" if mirror else None
        self._book = Logbook(client.backend, process.log, mirrored, secrets)
        self._clock = LoadClock(time.monotonic(), history)
        self._unreachable_since: float | None = None

    def until_ready(self) -> Iterator[LoadProgress]:
        """Wait until the server has proved that it is ready, and that it is the one asked for.

        Yields at least once a second. Raises LoadFailed with the diagnosis and the last lines, as
        soon as the process has died, says that it failed, or is stuck.
        """
        started = time.monotonic()
        yield from self._until_healthy(started)
        yield self._progress("checking", detail="identity")
        server_info, model_info = self._client.info(), self._client.model_info()
        self._write("server_info.json", server_info)
        self._write("model_info.json", model_info)
        facts = self._client.backend.facts(server_info, model_info)
        findings = self._identify(server_info, model_info)
        notices, flags = list(self.context.notices), list(self.context.flags)
        yield self._progress("checking", detail="canary request")
        self._canary()
        yield self._progress("checking", detail="flush")
        if not self.flush():
            notices.append("the cache could not be flushed before the first trial")
        self._fail_if_broken()
        path_ms = self._measure_path()
        if path_ms is not None:
            flags.append("driven_remotely")
            notices.append(f"requests from here pass a tunnel of {path_ms:.1f} ms round trip")
        now = time.monotonic()
        self.phase_times = self._clock.times(now)
        self.facts = ServiceFacts(
            url=self.url,
            version=facts.version,
            pid=self._process.pid,
            started_at=self._process.started_at,
            load_s=now - started,
            server=facts,
            server_info=server_info,
            model_info=model_info,
            notices=(*self._book.notices, *notices, *(f.explanation for f in findings)),
            flags=tuple(dict.fromkeys((*flags, *(finding.flag for finding in findings)))),
            host_facts=self.context.host_facts,
            code_hash=self.context.code_hash,
            path_ms=path_ms,
            lock=self.context.lock,
        )

    def _measure_path(self) -> float | None:
        """Measure the tunnel by the quickest of a few small requests; None without a tunnel."""
        if not self._tunnelled:
            return None
        quickest = min(self._client.round_trip_s() for _ in range(PATH_PROBES))
        return 1000 * quickest

    def check(self) -> LoadFailure | None:
        """Look whether the service still lives; cheap, for between and during trials.

        A host that cannot be reached for a while is no failure of the service: it may be back. One
        that comes back with another key is.
        """
        try:
            self._book.absorb()
            status = self._process.ended()
            self._book.absorb(final=status is not None)
        except HostError as error:
            return self._unreachable(error)
        self._unreachable_since = None
        if status is None and not self._book.fatal:
            return None
        own = self._book.diagnose(exit_status=status)
        return self._blamed(own) if own else None

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the host did not answer the last look: whether the server lives is not known."""
        return self._unreachable_since is not None

    def flush(self) -> bool:
        """Empty the prefix cache and reset the server's accept statistics; False if it refused."""
        return self._client.flush()

    def keep(self) -> None:
        """Leave the server running where its launcher would stop it, unless by an error.

        The next launch on this host stops it, or `specbench hosts restore`.
        """
        self.kept = True

    def gpu_summary(self, since_unix_s: float, until_unix_s: float) -> GpuSummary | None:
        """Summarise the GPUs over a span of this machine's wall clock; None without samples."""
        return self.telemetry.gpus(since_unix_s, until_unix_s) if self.telemetry else None

    def host_summary(
        self, since_unix_s: float, until_unix_s: float, *, driver_cpus: float | None
    ) -> HostSummary | None:
        """Summarise the host over the same span; see Telemetry. None without samples."""
        if self.telemetry is None:
            return None
        return self.telemetry.host(since_unix_s, until_unix_s, driver_cpus=driver_cpus)

    @property
    def pid(self) -> int | None:
        """The process id of the server on its host."""
        return self._process.pid

    def notices(self) -> tuple[str, ...]:
        """Return the lines of the log that must be recorded, up to now."""
        return self._book.notices

    def close(self) -> None:
        """Take the rest of the log; called by the launcher after the stop."""
        self._book.absorb(final=True)

    def _until_healthy(self, started: float) -> Iterator[LoadProgress]:
        stillness = Stillness(started, self._patience.stall_s, self._process.work)
        reported = answered = started
        bound = False
        while True:
            for progress in self._observe():
                reported = time.monotonic()
                yield self._progress(
                    progress.phase, fraction=progress.fraction, detail=progress.detail
                )
            now = time.monotonic()
            if now - started > self._patience.load_timeout_s:
                raise self._stalled("load_timeout", f"not ready after {now - started:.0f} s")
            self._fail_if_stuck(stillness, now)
            bound = bound or bool(self._client.alive(timeout_s=2.0).status)
            health = self._client.health(timeout_s=HEALTH_TIMEOUT_S) if bound else "silent"
            if health == "ready":
                return
            answered = now if health == "starting" else answered
            if now - answered > (self._patience.silent_s or float("inf")):
                raise self._stalled("silent", f"it answered nothing for {now - answered:.0f} s")
            if now - reported >= 1.0:
                reported = now
                yield self._progress("warmup" if bound else self._clock.phase)
            time.sleep(self._patience.poll_s)

    def _observe(self) -> list[LoadProgress]:
        """Read the log and see that the process lives.

        A host that is out of reach is waited for, up to `unreachable_s`. Raises LoadFailed.
        """
        try:
            progress = self._book.absorb()
            self._fail_if_broken()
        except HostError as error:
            failure = self._unreachable(error)
            if failure is not None:
                raise self.failed(failure) from error
            return []
        self._unreachable_since = None
        return progress

    def _fail_if_stuck(self, stillness: Stillness, now: float) -> None:
        if self._unreachable_since is not None:
            stillness.excuse(now)
            return
        still_s = stillness.measure(now, self._book.bytes_read)
        if still_s > self._patience.stall_s:
            raise self._stalled("stuck", f"no sign of work for {still_s:.0f} s")

    def _identify(
        self, server_info: Mapping[str, Any], model_info: Mapping[str, Any]
    ) -> tuple[Finding, ...]:
        backend = self._client.backend
        if not model_info:
            names = self._client.models()
            model_info = {"served_model_name": names[0]} if len(names) == 1 else {}
        findings = (
            *backend.findings(self.spec, server_info, model_info),
            *backend.contamination(self._process.environment()),
        )
        if self._process.listens() is False:
            stranger = "the port is held by a process that was not started here"
            findings = (Finding(flag="wrong_process", explanation=stranger, fatal=True),)
        if self.context.libraries and self._process.sees(self.context.libraries) is not True:
            hidden = "it cannot be seen that the process serves the packages of `files`"
            findings = (Finding(flag="wrong_code", explanation=hidden, fatal=True),)
        fatal = [finding for finding in findings if finding.fatal]
        if fatal:
            raise self.failed(
                LoadFailure(
                    pattern=fatal[0].flag,
                    cause="the server that answers is not the one that was asked for: "
                    + "; ".join(finding.explanation for finding in fatal),
                    hint="an older server on this port, a wrapper that changes flags, or a matrix "
                    "that names another model; nothing was measured under a false name",
                )
            )
        return findings

    def _canary(self) -> None:
        reply = self._client.canary(
            self.spec.served_name, timeout_s=self._patience.canary_timeout_s
        )
        self._fail_if_broken()
        if not reply.ok:
            said = reply.body.decode(errors="replace")[:300]
            raise self.failed(
                LoadFailure(
                    pattern="canary_failed",
                    cause=f"the first request failed: HTTP {reply.status}: {said}",
                    hint="the server is up but does not generate; see server.log",
                    evidence=self._book.tail(12),
                )
            )

    def _fail_if_broken(self) -> None:
        """Raise LoadFailed where process or log say so, with the lines that explain it."""
        status = self._process.ended()
        if status is None and not self._book.fatal:
            return
        settle = time.monotonic() + SETTLE_S
        while status is None and time.monotonic() < settle:
            time.sleep(self._patience.poll_s)  # a traceback is written line by line
            self._book.absorb()
            status = self._process.ended()
        self._book.absorb(final=True)
        failure = self._book.diagnose(exit_status=status)
        if failure is not None:
            raise self.failed(self._blamed(failure))

    def _blamed(self, own: LoadFailure) -> LoadFailure:
        """Name a reboot of the host, where the server seems to have ended only with it."""
        if own.pattern in CONSEQUENCES and self.context.was_rebooted():
            return LoadFailure(
                pattern="host_rebooted",
                cause="the host was rebooted while the server ran",
                hint="see why in the host's log of the boot before: journalctl --boot=-1",
                evidence=own.evidence,
            )
        return own

    def _stalled(self, pattern: str, what: str) -> LoadFailed:
        phase = self._clock.phase
        known = self._book.diagnose(exit_status=None)
        return self.failed(
            known
            or LoadFailure(
                pattern=pattern,
                cause=f"the server hangs in phase {phase!r}: {what}",
                hint="see the last lines; a load that is only slow needs a larger load_timeout_s "
                "in hosts.yaml",
                evidence=self._book.tail(12),
            )
        )

    def _unreachable(self, error: HostError) -> LoadFailure | None:
        if isinstance(error, HostKeyRefused):
            return LoadFailure(pattern="host_key", cause=error.what, hint=error.hint or "")
        now = time.monotonic()
        self._unreachable_since = self._unreachable_since or now
        if now - self._unreachable_since < self._patience.unreachable_s:
            return None
        return LoadFailure(
            pattern="host_unreachable",
            cause=f"the host has been out of reach for {now - self._unreachable_since:.0f} s: "
            f"{error.what}",
            hint=error.hint or "see specbench hosts check",
        )

    def failed(self, failure: LoadFailure) -> LoadFailed:
        """Make the error that ends the launch, with the last lines of the log."""
        return LoadFailed(
            failure.cause,
            where=str(self._block_dir / "server.log"),
            hint=failure.hint,
            log_tail=self._book.tail(),
            pattern=failure.pattern,
            evidence=failure.evidence,
        )

    def _progress(self, phase: Any, **what: Any) -> LoadProgress:
        return self._clock.progress(time.monotonic(), phase, **what)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        shown = {
            key: ("***" if value and key in {"api_key", "admin_api_key"} else value)
            for key, value in document.items()
        }
        told = self._secrets.hide_in(shown)
        write_private(self._block_dir / name, msgspec.json.format(msgspec.json.encode(told)))
