"""Two displays of a run: a live line a host on a terminal, plain lines in a log."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live

from specbench.cli.show.consoles import plain
from specbench.model.event import (
    BlockFailed,
    BlockLoading,
    BlockReady,
    BlockStarted,
    HostFailed,
    Notice,
    RunEvent,
    RunStarted,
    TrialFinished,
    TrialProgress,
    TrialStarted,
    VerdictGiven,
    VerifyProgress,
)
from specbench.model.plan import Block, Trial

QUIET_S = 10.0
"""Between two plain lines about the same load or trial in progress."""

_ONGOING = (BlockStarted, BlockLoading, TrialStarted, TrialProgress, VerifyProgress)

Show = Callable[[RunEvent], None]


@contextmanager
def plain_display(console: Console) -> Iterator[Show]:
    """Print a line an event; progress at most every ten seconds."""
    said = 0.0

    def show(event: RunEvent) -> None:
        nonlocal said
        if isinstance(event, BlockLoading | TrialProgress | VerifyProgress):
            if time.monotonic() - said < QUIET_S:
                return
            said = time.monotonic()
        if line := describe(event):
            console.print(plain(line), soft_wrap=True)

    yield show


@contextmanager
def live_display(console: Console) -> Iterator[Show]:
    """Keep one line a host at the bottom and let what is settled scroll by above it."""
    hosts: dict[str, str] = {}
    counts = {"done": 0, "all": 0}
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(event: RunEvent) -> None:
            if isinstance(event, RunStarted):
                counts["all"] = len(event.plan.trials)
            counts["done"] += isinstance(event, TrialFinished)
            line = describe(event)
            if isinstance(event, _ONGOING):
                hosts[_host(event)] = line
            elif line:
                console.print(plain(line), soft_wrap=True)
            bottom = [f"{counts['done']}/{counts['all']} trials", *hosts.values()]
            live.update(plain("\n".join(bottom)))

        yield show


def describe(event: RunEvent) -> str:
    """Say an event in one line (more for a failure); empty when there is nothing to say."""
    match event:
        case RunStarted(recording=recording, plan=plan, resumed=resumed):
            begun = "resuming" if resumed else "recording to"
            told = [f"note: {notice}" for notice in plan.notices]
            count = f"{len(plan.trials)} trials to measure in {plan.launches} launches"
            return "\n".join([f"{begun} {recording}", *told, count])
        case BlockStarted(block=block):
            return f"{block.host}: launching {_server(block)}"
        case BlockLoading(block=block, progress=load):
            share = "" if load.fraction is None else f" {load.fraction:.0%}"
            left = "" if load.eta_s is None else f", about {load.eta_s:.0f} s left"
            return f"{block.host}: loading {load.phase}{share}, {load.elapsed_s:.0f} s{left}"
        case BlockReady(block=block, load_s=load_s, flags=flags):
            flagged = f" ({', '.join(flags)})" if flags else ""
            return f"{block.host}: ready after {load_s:.1f} s{flagged}"
        case BlockFailed():
            return _failure(event)
        case _:
            return _describe_trial(event)


def _describe_trial(event: RunEvent) -> str:
    match event:
        case TrialStarted(trial=trial):
            return f"{trial.host}: {cell_text(trial)}: warming up"
        case TrialProgress(trial=trial, progress=drive):
            rate = drive.output_tokens / drive.elapsed_s if drive.elapsed_s else 0.0
            accept = "" if drive.accept_len is None else f", accept_len {drive.accept_len:.2f}"
            failed = f", {drive.failed} failed" if drive.failed else ""
            if drive.silent_s >= QUIET_S:
                failed += f", nothing came for {drive.silent_s:.0f} s"
            return (
                f"{trial.host}: {cell_text(trial)}: {drive.finished} requests,"
                f" {rate:.0f} tok/s{accept}{failed}"
            )
        case TrialFinished(trial=Trial(kind="verify"), status="ok"):
            return ""
        case TrialFinished(trial=trial, status="ok", tok_s=tok_s, accept_len=accept_len):
            shown = f"{tok_s:.0f} tok/s" if tok_s is not None else "no token counts"
            accept = "" if accept_len is None else f", accept_len {accept_len:.2f}"
            flagged = f" ({', '.join(event.flags)})" if event.flags else ""
            failed = f", failed: {event.reason}" if event.reason else ""
            return f"{trial.host}: {cell_text(trial)}: {shown}{accept}{failed}{flagged}"
        case TrialFinished(trial=trial, reason=reason):
            return f"{trial.host}: {cell_text(trial)}: FAILED: {reason}"
        case _:
            return _describe_rest(event)


def _describe_rest(event: RunEvent) -> str:
    match event:
        case HostFailed(host=host, what=what):
            return f"{host}: cannot be used: {what}"
        case VerifyProgress(trial=trial, stage=stage, generated=generated):
            return f"{trial.host}: {cell_text(trial)}: {stage}, {generated} tokens"
        case VerdictGiven(trial=trial, verdict=verdict, reason=reason):
            return f"{trial.host}: {cell_text(trial)}: lossless: {verdict} ({reason})"
        case Notice(text=text, host=host):
            return f"{host}: {text}" if host else text
        case _:
            return ""


def _failure(event: BlockFailed) -> str:
    failure = event.failure
    lines = [f"{event.block.host}: FAILED: {failure.cause}", f"  {failure.hint}"]
    lines += [f"  | {line}" for line in failure.evidence[-8:]]
    return "\n".join([*lines, f"  log: {event.log_path}"])


def _host(event: RunEvent) -> str:
    match event:
        case BlockLoading(block=block) | BlockStarted(block=block):
            return block.host
        case TrialProgress(trial=trial) | TrialStarted(trial=trial) | VerifyProgress(trial=trial):
            return trial.host
        case _:
            return ""


def _server(block: Block) -> str:
    levels = {name: value for name, value in block.spec.levels.items() if name != "algorithm"}
    return " ".join([block.spec.algorithm, *settings(levels)])


def cell_text(trial: Trial) -> str:
    """Name a cell by its levels: `dflash budget=7 concurrency=8`."""
    levels = {name: value for name, value in trial.cell.levels.items() if name != "algorithm"}
    kind = "" if trial.kind == "timed" else f"{trial.kind} "
    return kind + " ".join([trial.cell.algorithm, *settings(levels)])


def settings(levels: Mapping[str, Any]) -> list[str]:
    """Write levels as `name=value`, without those that do not apply."""
    return [f"{name}={value}" for name, value in levels.items() if value is not None]
