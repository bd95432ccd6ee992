"""One quick measurement of a server that is already running: a load level after the other."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from specbench.analysis.failures import Failure, failures
from specbench.analysis.summary import raised_flags, summarise
from specbench.backends.client import ControlClient, recognise
from specbench.backends.products import backend_for
from specbench.config.datasets import PromptSet, choose_prompts, load_dataset
from specbench.errors import HostError, InputError
from specbench.loadgen import drive
from specbench.loadgen.saturation import next_level
from specbench.loadgen.slo_search import misses, next_probe
from specbench.model.load import (
    FEWEST_A_SLOT,
    Accuracy,
    Api,
    Closed,
    DriveProgress,
    DriveReport,
    LoadSpec,
    Open,
    RequestRecord,
    Sampling,
    ServiceLevels,
    Shape,
    Stop,
    Target,
    whole_passes,
)
from specbench.workflows.trial import write_prompts

SILENCE_S = 50.0
FEWEST = 16
"""Requests of a level at the least."""


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure.

    `requests` None means eight for each slot, 16 at least, or 30 s of a rate; they are rounded up
    to whole passes over the prompts, which are the same at every level.
    `keep` is a folder that the rows are kept in, one file a level. With `saturate`, the levels are
    chosen one by one, up to the largest of `concurrency`, until throughput grows no more.
    `timeout_s` bounds a request; `stall_timeout_s` the silence inside a reply, and of the whole
    server, which is 50 s otherwise. `slo` asks of each request what `goodput_rps` counts; with
    `search`, the levels are chosen to find the highest that meets it, as with `saturate`.
    """

    url: str
    concurrency: tuple[int, ...] = (1, 8, 64)
    rate: float | None = None
    requests: int | None = None
    max_tokens: int = 256
    temperature: float = 0.0
    api: Api = "chat"
    engine: str | None = None
    model: str | None = None
    dataset: str = "builtin:mixed"
    api_key_env: str | None = None
    keep: Path | None = None
    saturate: bool = False
    seed: int = 0
    timeout_s: float = 600.0
    stall_timeout_s: float | None = None
    slo: ServiceLevels | None = None
    search: bool = False


class LevelStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A level begins; `name` is `concurrency 8` or `rate 2.5`."""

    name: str


class LevelFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A level is done: the columns of contract section 6, the flags, and what they are worth."""

    name: str
    concurrency: int | None
    rate: float | None
    columns: dict[str, Any]
    flags: tuple[str, ...]
    accuracy: Accuracy = msgspec.field(name="certificate")
    rows: str | None = None
    failures: tuple[Failure, ...] = ()
    gave_up: str = ""
    slo_missed: tuple[str, ...] | None = None


class ServerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The server as it presents itself."""

    url: str
    model: str
    engine: str
    speculative: bool | None
    version: str | None
    algorithm: str | None


LoadEvent = ServerSeen | LevelStarted | DriveProgress | LevelFinished


def measure(
    options: LoadOptions, stopped: Callable[[], bool] = lambda: False
) -> Iterator[LoadEvent]:
    """Measure every level asked for, in ascending order.

    Once `stopped` says so, the level in progress ends with what came until then (flag
    `interrupted`) and is the last; so is one on which the server fell silent.

    Raises InputError, and HostError when the server cannot be reached.
    """
    if not options.url.startswith(("http://", "https://")):
        raise InputError(
            f"not the URL of a server: {options.url!r}",
            hint="for example --url http://127.0.0.1:30000",
        )
    _check_search(options)
    asked = _asked(options)
    server = _look(options)
    yield server
    with tempfile.TemporaryDirectory(prefix="specbench-load-") as scratch:
        folder = _folder(options.keep) or Path(scratch)
        measured: dict[int, LevelFinished] = {}
        for number, shape in enumerate(_shapes(options, measured)):
            name = _name(shape)
            yield LevelStarted(name=name)
            spec = _spec(options, server, shape, asked, Path(scratch), number)
            sink = folder / f"{name.replace(' ', '-')}.jsonl"
            sink.unlink(missing_ok=True)
            for event in drive(spec, sink, stopped=stopped):
                if not isinstance(event, DriveReport):
                    yield event
                    continue
                level = _finished(name, shape, sink, event, server, len(asked.prompts), options)
                measured[level.concurrency or 0] = level
                yield level
                if event.interrupted or event.gave_up:
                    return


def _shapes(options: LoadOptions, measured: Mapping[int, LevelFinished]) -> Iterator[Shape]:
    """Yield the levels; in a search each depends on what was `measured` before."""
    if options.rate is not None:
        yield Open(rate=options.rate)
    elif options.saturate or options.search:
        while (slots := _next(options, measured)) is not None:
            yield Closed(concurrency=slots)
    else:
        for slots in sorted(set(options.concurrency)):
            yield Closed(concurrency=slots)


def _next(options: LoadOptions, measured: Mapping[int, LevelFinished]) -> int | None:
    largest = max(options.concurrency)
    if options.search:
        return next_probe({slots: not one.slo_missed for slots, one in measured.items()}, largest)
    return next_level({slots: _throughput(one) for slots, one in measured.items()}, largest)


def _throughput(level: LevelFinished) -> float:
    """Give tok/s in the steady window, else over the whole run; 0 when nothing was counted."""
    return level.columns["tok_s_window"] or level.columns["tok_s"] or 0.0


def _name(shape: Shape) -> str:
    return f"rate {shape.rate:g}" if isinstance(shape, Open) else f"concurrency {_slots(shape)}"


def _slots(shape: Shape) -> int | None:
    return shape.concurrency if isinstance(shape, Closed) else None


def _folder(keep: Path | None) -> Path | None:
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot keep rows there: {error.strerror}", where=str(keep)) from None
    return keep


def _check_search(options: LoadOptions) -> None:
    """Refuse a search that could find nothing."""
    if options.search and options.slo is None:
        raise InputError(
            "a search needs service levels", where="--search", hint='--slo "tpot <= 30 ms"'
        )
    if options.search and (options.saturate or options.rate is not None):
        raise InputError(
            "one search at a time, over concurrency", where="--search",
            hint="leave --saturate and --rate out",
        )  # fmt: skip


def _asked(options: LoadOptions) -> PromptSet:
    """Choose the prompts that every level asks: as many as the level of the fewest requests.

    Raises InputError for fewer requests than a level holds in flight.
    """
    searched = options.saturate or options.search
    slots = 1 if searched else min(options.concurrency, default=1)
    largest = 1 if options.rate is not None else max(options.concurrency, default=1)
    if options.requests is not None and options.requests < largest:
        raise InputError(
            f"{options.requests} requests cannot keep {largest} in flight",
            hint=f"--requests {FEWEST_A_SLOT * largest}, or a lower --concurrency",
        )
    requests = _requests(options, None if options.rate is not None else slots)
    return choose_prompts(load_dataset(options.dataset).prompts, requests, options.seed)


def _requests(options: LoadOptions, slots: int | None) -> int:
    """Give the measured requests of a level, before they are rounded up to whole passes."""
    if options.requests is not None:
        return options.requests
    wanted = FEWEST_A_SLOT * slots if slots else round(30 * (options.rate or 0.0))
    return max(FEWEST, wanted)


def _spec(
    options: LoadOptions,
    server: ServerSeen,
    shape: Shape,
    asked: PromptSet,
    folder: Path,
    number: int,
) -> LoadSpec:
    """Put one level together; its salt keeps it from the prefix cache of the level before."""
    slots = _slots(shape)
    path = folder / "prompts.jsonl"
    own = write_prompts(asked, path, warmup=slots or 1, seed=options.seed)
    return LoadSpec(
        target=Target(
            url=options.url,
            model=server.model,
            api=options.api,
            engine=server.engine,
            api_key_env=options.api_key_env,
        ),
        prompts_path=str(path),
        sampling=Sampling(temperature=options.temperature, max_tokens=options.max_tokens),
        shape=shape,
        stop=Stop(requests=whole_passes(_requests(options, slots), len(asked.prompts))),
        warmup_requests=slots or 1,
        warmup_prompts=own,
        request_timeout_s=options.timeout_s,
        stall_timeout_s=options.stall_timeout_s,
        silence_timeout_s=options.stall_timeout_s or min(SILENCE_S, options.timeout_s),
        salt=f"specbench-load-{options.seed}-{number}",
        seed=options.seed,
    )


def _finished(
    name: str,
    shape: Shape,
    sink: Path,
    report: DriveReport,
    server: ServerSeen,
    n_prompts: int,
    options: LoadOptions,
) -> LevelFinished:
    decoder = msgspec.json.Decoder(RequestRecord)
    with sink.open("rb") as lines:
        records = [decoder.decode(line) for line in lines]
    counted = any(record.spec_verify_ct for record in records)
    speculative = counted or server.speculative is not False
    columns = summarise(records, report, speculative=speculative, levels=options.slo)
    return LevelFinished(
        name=name,
        concurrency=_slots(shape),
        rate=shape.rate if isinstance(shape, Open) else None,
        columns=columns,
        flags=raised_flags(columns, report, records, n_prompts=n_prompts, slots=_slots(shape)),
        accuracy=report.accuracy,
        rows=str(sink) if options.keep is not None else None,
        failures=failures(records),
        gave_up=report.gave_up,
        slo_missed=None if options.slo is None else misses(columns, options.slo),
    )


def _look(options: LoadOptions) -> ServerSeen:
    """Ask the server who it is; what it does not say must be given."""
    key = f"${{{options.api_key_env}}}" if options.api_key_env else None
    backend = backend_for(options.engine) if options.engine else recognise(options.url, api_key=key)
    with ControlClient(options.url, backend, api_key=key) as client:
        reply = client.alive(timeout_s=10.0)
        if not reply.status:
            raise HostError(
                f"no answer: {reply.body.decode(errors='replace')}",
                where=options.url,
                hint="is the server up, and is the port right?",
            )
        facts, names = client.facts(), client.models()
    model = options.model or (names[0] if names else facts.served_name)
    if not model:
        raise InputError("the server does not name its model", hint="give it with --model")
    return ServerSeen(
        url=options.url,
        model=model,
        engine=backend.name,
        speculative=facts.speculative,
        version=facts.version,
        algorithm=facts.algorithm,
    )
