"""The columns of the trials table, each said once: every list, table and page derives from here."""

from typing import Literal

import msgspec

Dtype = Literal["text", "integer", "number"]
Better = Literal["higher", "lower"]
Place = Literal["load", "cells", "trials", "notebook"]
Source = Literal["plan", "outcome", "requests", "server", "host", "energy", "verdict"]
Latency = Literal["ttft_ms", "tpot_ms", "e2e_ms"]
Count = Literal["tokens", "steps"]
Quantity = Latency | Literal["chunk_gap_ms"]

PERCENTS = (50, 90, 95, 99)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """How a column is compared between arms.

    `noise` says which allowance it has where nothing was replicated: a clock's or acceptance's;
    a clock is a speed, so its better side is "faster". `ratio` names two sums over requests
    (`analysis.totals`) whose ratio the column is, up to the clock, so that it can be paired by
    prompt; that of throughput is the rate a slot in the steady window. With neither a ratio nor a
    quantity, it is compared by trials alone.
    """

    noise: Literal["clock", "acceptance", "power"] = "clock"
    ratio: tuple[str, str] | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the trials table.

    `label` heads it in tables for people, `name` everywhere else. `source` says where the value
    comes from: the plan, the outcome of the trial, its requests (computed again when definitions
    change), what the server or its host said while the trial ran, the energy that follows from
    power and speed, or a verdict. `show_in` lists the tables for people that have it: those of
    `specbench load`, of cells (the end of a run and the report), of trials (the report) and of a
    notebook; the files in `tables/` have every column. `pooled` says how the trials of a cell are
    summarised: their mean, or weighted by their verify steps. `quantity` and `percent` make it a
    percentile over requests. `compared` is None where arms cannot be compared by it. An `optional`
    column is there only where a trial has something to put in it. `rests_on` names the counts of
    the server without which the column says nothing: it is empty where they cannot be true.
    """

    name: str
    meaning: str
    dtype: Dtype = "number"
    unit: str = ""
    better: Better | None = None
    label: str = ""
    source: Source = "requests"
    show_in: tuple[Place, ...] = ()
    digits: int = 2
    pooled: Literal["mean", "steps"] = "mean"
    quantity: Quantity | None = None
    percent: float = 50.0
    compared: Compared | None = None
    optional: bool = False
    rests_on: tuple[Count, ...] = ()

    @property
    def heading(self) -> str:
        """What heads the column in a table for people."""
        return self.label or self.name

    @property
    def gateable(self) -> bool:
        """Whether the condition of a probe may name it: the requests alone give its number."""
        return self.source == "requests" and self.dtype != "text"

    @property
    def is_speed(self) -> bool:
        """Whether it tells how fast tokens came, which counts for nothing where they are wrong."""
        return self.unit == "tokens/s"


def _percentiles(
    quantity: Latency,
    label: str,
    meaning: str,
    shown: dict[int, tuple[Place, ...]],
    rests_on: tuple[Count, ...] = (),
) -> tuple[Column, ...]:
    """Say the percentiles of a latency; those after the first refer to its words."""
    return tuple(
        Column(
            name=f"{quantity}_p{percent}",
            unit="ms",
            meaning=f"{meaning}, median" if percent == 50 else f"the same, {percent}th percentile",
            better="lower",
            label=f"{label} p{percent} (ms)",
            show_in=shown.get(percent, ()),
            quantity=quantity,
            percent=percent,
            compared=Compared(),
            rests_on=rests_on,
        )
        for percent in PERCENTS
    )


def _text(
    name: str, meaning: str, source: Source, show_in: tuple[Place, ...] = (), label: str = ""
) -> Column:
    return Column(
        name=name, meaning=meaning, dtype="text", source=source, show_in=show_in, label=label
    )


def _count(
    name: str,
    meaning: str,
    unit: str = "",
    source: Source = "requests",
    rests_on: tuple[Count, ...] = (),
) -> Column:
    return Column(
        name=name, meaning=meaning, unit=unit, dtype="integer", source=source, rests_on=rests_on
    )


def _of_host(name: str, meaning: str, unit: str = "") -> Column:
    return Column(name=name, meaning=meaning, unit=unit, source="host", optional=True)


_RATE = Compared(ratio=("window_tokens", "window_ns"))

COLUMNS: tuple[Column, ...] = (
    _text("cell_id", "content hash of everything that defines the cell", "plan"),
    _text("trial_id", "one measured execution of a cell", "plan"),
    _text("block_id", "the launch of the server that was measured", "plan", ("trials",), "block"),
    _text("host", "machine of hosts.yaml", "plan", ("trials",)),
    _count(
        "replicate",
        "number of this execution among the cell's, over all launches, from 0",
        source="plan",
    ),
    _count("order", "place of the trial inside its block, from 0", source="plan"),
    _text("started_at", "UTC, ISO 8601", "outcome", ("trials",), "started"),
    _text("status", "`ok`, or `failed` with a reason", "outcome", ("trials", "notebook")),
    _text("reason", "why a trial failed, in a sentence", "outcome", ("trials",)),
    Column(
        name="n_requests",
        meaning="measured requests, failed ones included",
        dtype="integer",
        label="requests",
        show_in=("trials",),
    ),
    Column(
        name="n_failed",
        meaning="measured requests that did not end well",
        dtype="integer",
        better="lower",
        label="failed",
        show_in=("load", "trials"),
    ),
    Column(
        name="concurrency_effective",
        meaning="time average of requests in flight in the steady window",
    ),
    Column(
        name="client_lag_ms_p99",
        unit="ms",
        meaning="how late the client itself was, 99th percentile",
        better="lower",
    ),
    Column(
        name="tok_s",
        unit="tokens/s",
        meaning="output tokens counted by the server / wall time of the trial",
        better="higher",
        label="tok/s",
        show_in=("load", "cells", "trials", "notebook"),
        digits=0,
        compared=_RATE,
        rests_on=("tokens",),
    ),
    Column(
        name="tok_s_window",
        unit="tokens/s",
        meaning="the same inside the steady window, with requests in flight at the target",
        better="higher",
        label="tok/s in the window",
        show_in=("load",),
        digits=0,
        compared=_RATE,
        rests_on=("tokens",),
    ),
    Column(
        name="tok_s_user",
        unit="tokens/s",
        meaning="median over requests of 1000 / tpot_ms",
        better="higher",
        label="tok/s per user",
        show_in=("load", "cells", "trials"),
        digits=0,
        compared=Compared(ratio=("decode_tokens", "decode_ns")),
        rests_on=("tokens",),
    ),
    *_percentiles(
        "ttft_ms",
        "TTFT",
        "from the intended send to the first chunk with content or reasoning",
        {50: ("load", "trials"), 99: ("load",)},
    ),
    *_percentiles(
        "tpot_ms",
        "TPOT",
        "(last token - first token) / (n - n in the first chunk)",
        {50: ("load", "trials")},
        ("tokens",),
    ),
    Column(
        name="tpot_n",
        meaning="requests that have a TPOT; the others came in one chunk or one stamp",
        dtype="integer",
        label="n",
        show_in=("load",),
    ),
    Column(
        name="chunk_gap_ms_p50",
        unit="ms",
        meaning="time between stream chunks, median; no token latency where a chunk holds several"
        " tokens",
        better="lower",
        label="chunk gap p50 (ms)",
        show_in=("load",),
        quantity="chunk_gap_ms",
    ),
    *_percentiles("e2e_ms", "E2E", "from the intended send to the end of the stream", {}),
    Column(
        name="goodput_rps",
        unit="requests/s",
        meaning="requests a second that met the service levels asked for; empty if none were asked",
        better="higher",
        label="goodput (requests/s)",
        compared=Compared(),
    ),
    Column(
        name="accept_len",
        unit="tokens/step",
        meaning="1 + accepted drafts / verify steps, pooled over requests; plain decoding is 1.0",
        better="higher",
        show_in=("load", "cells", "trials", "notebook"),
        pooled="steps",
        compared=Compared(noise="acceptance", ratio=("emitted", "steps")),
        rests_on=("steps",),
    ),
    Column(
        name="accept_len_request_mean",
        unit="tokens/step",
        meaning="mean over requests of the same",
        better="higher",
        pooled="steps",
        compared=Compared(noise="acceptance", ratio=("accept", "requests")),
        rests_on=("steps",),
    ),
    Column(
        name="accept_len_server",
        unit="tokens/step",
        meaning="what the server itself reports, kept for reconciliation",
        better="higher",
        source="server",
    ),
    _count(
        "verify_steps",
        "verify steps of all measured requests; decode steps for plain decoding",
        "steps",
        rests_on=("steps",),
    ),
    Column(
        name="step_ms",
        unit="ms",
        meaning="decode time / verify steps",
        better="lower",
        label="step (ms)",
        show_in=("cells", "trials"),
        pooled="steps",
        compared=Compared(ratio=("decode_ns", "steps")),
        rests_on=("tokens", "steps"),
    ),
    Column(
        name="tokens_per_chunk",
        unit="tokens",
        meaning="output tokens a stream chunk, by the server's counts",
        rests_on=("tokens",),
    ),
    _count("prompt_tokens", "prompt tokens of all measured requests", "tokens"),
    _count(
        "output_tokens",
        "output tokens of all measured requests",
        "tokens",
        rests_on=("tokens",),
    ),
    _count(
        "reasoning_tokens",
        "the part of the output tokens that the server counted as reasoning; empty where it did"
        " not say",
        "tokens",
    ),
    _count(
        "cached_tokens", "prompt tokens that the server took from its prefix cache", "tokens"
    ),
    _count(
        "retractions",
        "requests that the server took out of the running batch for lack of KV memory",
    ),
    Column(
        name="gpu_power_w",
        unit="W",
        meaning="mean power of the server's GPUs during the trial",
        better="lower",
        source="host",
    ),
    Column(name="gpu_temp_c_max", unit="°C", meaning="highest GPU temperature during the trial",
           source="host"),
    _text(
        "lossless",
        "the verdict that applies to this row: holds, violated, inconclusive or untested; empty"
        " for the control",
        "verdict",
        ("cells", "notebook"),
    ),
    _text(
        "flags",
        "what a reader should be careful about in this row, comma-separated; each is explained in"
        " the list of flags",
        "outcome",
        ("cells", "trials", "notebook"),
    ),
    Column(
        name="accept_steps",
        dtype="text",
        meaning="`counted` where the server counted every verify step, `derived` where the steps"
        " follow from its other counts: tokens - 1 - accepted drafts",
        optional=True,
    ),
    Column(
        name="in_doubt",
        dtype="text",
        meaning="which figures of the row are withheld, and why: the reasons behind"
        " `stamps_in_doubt` and `counts_in_doubt`",
        optional=True,
    ),
    Column(
        name="launch",
        meaning="number of the launch among those of the same server, from 0",
        dtype="integer",
        source="plan",
        optional=True,
    ),
    Column(
        name="energy_j_per_token",
        unit="J/token",
        meaning="gpu_power_w / tok_s: energy of all GPUs of the server for one output token; a"
        " column of recordings in which power was measured",
        better="lower",
        source="energy",
        compared=Compared(noise="power"),
        optional=True,
    ),
    _of_host("host_load_1min", "highest 1-minute load average of the host during the trial"),
    _of_host(
        "host_cpu_pct", "mean share of all processors of the server's host that were busy", "%"
    ),
    _of_host(
        "host_foreign_cpu_pct",
        "the part of it that neither the server nor specbench used; empty where the server's"
        " processes could not be told from others",
        "%",
    ),
    _of_host("host_mem_available_mib", "least memory available on the server's host", "MiB"),
)  # fmt: skip

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

TRIAL_COLUMNS: tuple[str, ...] = tuple(column.name for column in COLUMNS if not column.optional)
"""The columns that every table has after the factors, in the contract's order."""


def shown_in(place: Place) -> tuple[Column, ...]:
    """List the columns of a table for people."""
    return tuple(column for column in COLUMNS if place in column.show_in)


def of_cells() -> tuple[str, ...]:
    """Name what the table at the end of a run tells of a cell, in its order."""
    shown = shown_in("cells")
    measured = [column.name for column in shown if column.dtype != "text"]
    return ("trials", *measured, "speedup", *(one.name for one in shown if one.dtype == "text"))


def names_from(*sources: Source, optional: bool = True) -> tuple[str, ...]:
    """Name the columns whose values come from one of the `sources`, the `optional` ones or not."""
    chosen = (column for column in COLUMNS if column.source in sources)
    return tuple(column.name for column in chosen if optional or not column.optional)
