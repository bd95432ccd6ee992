"""What can be asked of a configuration: losslessness, a figure, a crash, a user's own command."""

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from specbench import config
from specbench.analysis.gate import Condition, Range, condition, judge
from specbench.analysis.summary import summarise
from specbench.errors import HostError, InputError
from specbench.model.columns import COLUMNS
from specbench.model.host import Host
from specbench.model.load import (
    Closed,
    Dataset,
    DriveReport,
    LoadSpec,
    Sampling,
    Stop,
    Target,
)
from specbench.model.matrix import Level, Matrix, WorkloadOptions
from specbench.model.plan import LaunchSpec
from specbench.planning import requests_of
from specbench.planning.shrink import FREE_FACTORS, FreeFactor
from specbench.verify.battery import verdict_of
from specbench.verify.options import VerifyOptions
from specbench.workflows.isolate_journal import Settings
from specbench.workflows.isolate_search import Probed
from specbench.workflows.lab import Lab, drives_remotely
from specbench.workflows.trial import read_requests, write_prompts

if TYPE_CHECKING:
    from specbench.model.verdict import VerdictDocument

FIGURES = tuple(column.name for column in COLUMNS if column.gateable)
"""Columns that a condition may name."""

COMMAND_TIMEOUT_S = 1800.0
SKIP = 125
"""Exit status by which a command says that it cannot tell (the convention of `git bisect run`)."""


class Server(Protocol):
    """What a probe needs of a running server."""

    url: str

    def check(self) -> Any:
        """Return why it no longer serves, or None."""


Ask = Callable[[Server, LaunchSpec, Settings], Probed]


class ProbeKind(msgspec.Struct, frozen=True, kw_only=True):
    """A probe: its words, how a server is asked, which free factors may be made cheaper.

    `crash` says that a server that does not come up fails the probe; for the others it decides
    nothing.
    """

    text: str
    ask: Ask
    free: tuple[str, ...]
    crash: bool = False

    @property
    def factors(self) -> tuple[FreeFactor, ...]:
        """The free factors, with the levels to try."""
        return tuple(factor for factor in FREE_FACTORS if factor.name in self.free)


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe that drives load needs besides the server."""

    matrix: Matrix
    dataset: Dataset
    workload: WorkloadOptions
    lab: Lab
    host: Host


def probe_kind(text: str, command: str | None, bench: Bench) -> ProbeKind:
    """Read what is to be asked: `lossless`, `crash`, a condition, or a command of the user's.

    Raises:
        InputError: it is none of them.
    """
    if command is not None:
        return _command(command)
    match text:
        case "lossless":
            return _lossless(bench)
        case "crash":
            return ProbeKind(
                text="the server crashes",
                ask=lambda server, spec, settings: _crash(bench, server, spec, settings),
                free=("requests", "max_tokens", "concurrency"),
                crash=True,
            )
        case _:
            return _condition(text, bench)


def _lossless(bench: Bench) -> ProbeKind:
    def ask(server: Server, _: LaunchSpec, settings: Settings) -> Probed:
        options = VerifyOptions(
            budget="quick",
            concurrency=int(settings.get("concurrency") or 1),
            api_key_env=bench.host.api_key_env,
            fail_fast=True,
        )
        try:
            return _judged(verdict_of(server.url, options))
        except HostError as error:
            return Probed(verdict="inconclusive", note=str(error))

    return ProbeKind(text="losslessness is violated", ask=ask, free=("concurrency",))


def _judged(document: "VerdictDocument") -> Probed:
    """Fail on a violation; a quick battery that finds none passes unless it could not look."""
    bad = [claim.name for claim in document.claims if claim.verdict == "violated"]
    match document.verdict:
        case "violated":
            return Probed(verdict="fails", note="violated: " + ", ".join(bad or ["integrity"]))
        case "holds":
            return Probed(verdict="passes", note="holds")
        case _:
            looked = any(claim.verdict == "holds" for claim in document.claims)
            note = "no violation; not every margin is resolved by the quick budget"
            return Probed(verdict="passes" if looked else "inconclusive", note=note)


def _condition(text: str, bench: Bench) -> ProbeKind:
    asked = condition(text, FIGURES)

    def ask(server: Server, spec: LaunchSpec, settings: Settings) -> Probed:
        try:
            row = _measure(bench, server, spec, settings)
        except HostError as error:
            return Probed(verdict="inconclusive", note=str(error))
        return _compared(asked, row)

    return ProbeKind(text=text, ask=ask, free=("requests",))


def _compared(asked: Condition, row: Mapping[str, Any]) -> Probed:
    names = dict.fromkeys(name for clause in asked.clauses for name, _, _ in clause)
    seen = {name: None if row.get(name) is None else float(row[name]) for name in names}
    figures = {n: None if v is None else Range(low=v, high=v) for n, v in seen.items()}
    note = ", ".join(
        f"{n} = {'not measured' if v is None else f'{v:.4g}'}" for n, v in seen.items()
    )
    verdicts = {"yes": "fails", "no": "passes", "unknown": "inconclusive"}
    return msgspec.convert({"verdict": verdicts[judge(asked, figures)], "note": note}, Probed)


def _crash(bench: Bench, server: Server, spec: LaunchSpec, settings: Settings) -> Probed:
    try:
        _measure(bench, server, spec, settings)
    except HostError as error:
        return Probed(verdict="fails", note=str(error), gone=True)
    dead = server.check()
    if dead is not None:
        return Probed(verdict="fails", note=str(getattr(dead, "cause", dead)), gone=True)
    return Probed(verdict="passes", note="it served to the end")


def _measure(bench: Bench, server: Server, spec: LaunchSpec, settings: Settings) -> dict[str, Any]:
    """Drive the load of the settings and summarise it; HostError when nobody answers."""
    with TemporaryDirectory(prefix="specbench-isolate-") as folder:
        prompts, sink = Path(folder) / "prompts.jsonl", Path(folder) / "requests.jsonl"
        slots = int(settings.get("concurrency") or 1)
        default = requests_of(bench.workload, Closed(concurrency=slots))
        set_by_search = settings.get("requests")
        requests = int(set_by_search) if set_by_search else default
        asked = config.choose_prompts(bench.dataset.prompts, requests, bench.workload.seed)
        own = write_prompts(asked, prompts, warmup=max(2, slots), seed=bench.workload.seed)
        url = bench.host.url if drives_remotely(bench.host) else server.url
        job = msgspec.structs.replace(
            _job(bench, url, prompts, settings),
            stop=_stop(bench, asked.requests),
            warmup_prompts=own,
        )
        report = next(
            e for e in bench.lab.drive(bench.host, job, sink) if isinstance(e, DriveReport)
        )
        records = read_requests(sink)
    levels = bench.workload.slo
    return summarise(records, report, speculative=spec.speculative, levels=levels)


def _stop(bench: Bench, requests: int | None) -> Stop:
    options = bench.workload
    return Stop(requests=requests, seconds=options.seconds, tokens=options.tokens)


def _job(bench: Bench, url: str, prompts: Path, settings: Settings) -> LoadSpec:
    options, slots = bench.workload, int(settings.get("concurrency") or 1)
    given = {name: level for name, level in settings.items() if level is not None}
    fields = set(Sampling.__struct_fields__)
    sampling = {n: getattr(options, n) for n in fields if hasattr(options, n)}
    return LoadSpec(
        target=Target(
            url=url,
            model=bench.matrix.model.served_name,
            api=options.api,
            api_key_env=bench.host.api_key_env,
        ),
        prompts_path=str(prompts),
        sampling=msgspec.convert(
            sampling | {n: v for n, v in given.items() if n in fields}, Sampling
        ),
        shape=Closed(concurrency=slots, stagger_s=min(2.0, 0.02 * slots)),
        stop=_stop(bench, requests_of(options, Closed(concurrency=slots))),
        warmup_requests=max(2, slots),
        request_timeout_s=options.request_timeout_s,
        salt=os.urandom(4).hex(),
        seed=options.seed,
    )


def _command(command: str) -> ProbeKind:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command cannot be read: {error}", where="--command") from error
    if not words:
        raise InputError("the command is empty", where="--command")

    def ask(server: Server, spec: LaunchSpec, settings: Settings) -> Probed:
        return _run(words, server, spec, settings)

    return ProbeKind(text=f"command {command}", ask=ask, free=())


def _run(words: list[str], server: Server, spec: LaunchSpec, settings: Settings) -> Probed:
    """Run the user's command: 0 passes, 125 cannot tell, another status up to 127 fails."""
    told = {"SPECBENCH_URL": server.url, "SPECBENCH_ALGORITHM": spec.algorithm}
    told |= {f"SPECBENCH_{name.upper()}": _text(level) for name, level in settings.items()}
    try:
        done = subprocess.run(
            [word.replace("{url}", server.url) for word in words],
            env=os.environ | told,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise InputError(
            f"the command cannot be run: {error.strerror}", where=f"--command {words[0]}"
        ) from error
    except subprocess.TimeoutExpired:
        return Probed(verdict="inconclusive", note=f"no answer in {COMMAND_TIMEOUT_S:.0f} s")
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    note = f"exit status {done.returncode}" + (f": {last[0][:200]}" if last else "")
    if done.returncode == 0:
        return Probed(verdict="passes", note=note)
    undecided = done.returncode == SKIP or not 0 < done.returncode < 128
    return Probed(verdict="inconclusive" if undecided else "fails", note=note)


def _text(level: Level) -> str:
    return "" if level is None else str(level)
