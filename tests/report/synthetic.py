"""Recordings made of frames, with the columns of contract section 6: no server, no disk."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from specbench.model.columns import TRIAL_COLUMNS
from specbench.model.verdict import RecordedVerdict
from specbench.recording.entries import entry_of
from specbench.recording.sealed import Manifest
from specbench.recording.tables import with_types
from specbench.recording.upgrade import upgraded
from specbench.report.inputs import Evidence
from tests.recording.blocks import facts_of

FACTORS = ("algorithm", "budget", "topk", "temperature", "concurrency")
ACCEPT = {"ar": 1.0, "dflash": 3.1, "ddtree": 3.9}
STEP_MS = {"ar": 10.0, "dflash": 12.0, "ddtree": 14.5}


def trial(
    *,
    algorithm: str = "ar",
    temperature: float = 0.0,
    concurrency: int = 8,
    launch: int = 0,
    replicate: int = 0,
    wobble: float = 0.0,
    **changes: Any,
) -> dict[str, Any]:
    """One row of the trials table; `wobble` is a relative deviation of its speed."""
    speculative = algorithm != "ar"
    accept_len = ACCEPT[algorithm] - 0.4 * speculative * temperature
    step_ms = STEP_MS[algorithm] * (1 + concurrency / (20 if speculative else 60)) * (1 - wobble)
    tok_s = concurrency * accept_len / step_ms * 1000
    cell = f"{algorithm}-t{temperature:g}-c{concurrency}"
    row = dict.fromkeys((*FACTORS, *TRIAL_COLUMNS))
    return (
        row
        | {
            "algorithm": algorithm,
            "budget": 16 if speculative else None,
            "topk": 4 if algorithm == "ddtree" else None,
            "temperature": temperature,
            "concurrency": concurrency,
            "cell_id": cell,
            "trial_id": f"{cell}-r{replicate}-l{launch}",
            "block_id": f"{algorithm}-l{launch}",
            "host": "local",
            "replicate": replicate,
            "launch": launch,
            "order": 0,
            "started_at": f"2026-01-0{1 + launch}T00:{replicate:02d}:00.000+00:00",
            "status": "ok",
            "reason": "",
            "n_requests": 100,
            "n_failed": 0,
            "concurrency_effective": float(concurrency),
            "client_lag_ms_p99": 0.2,
            "tok_s": tok_s,
            "tok_s_window": tok_s * 1.02,
            "tok_s_user": 1000 * accept_len / step_ms,
            "ttft_ms_p50": 40.0 + concurrency,
            "ttft_ms_p99": 90.0 + 3 * concurrency,
            "tpot_ms_p50": step_ms / accept_len,
            "tpot_ms_p99": 1.6 * step_ms / accept_len,
            "chunk_gap_ms_p50": step_ms,
            "e2e_ms_p50": 1800.0,
            "e2e_ms_p99": 3100.0,
            "accept_len": accept_len,
            "accept_len_request_mean": accept_len * 1.02,
            "accept_len_server": accept_len if speculative else None,
            "verify_steps": round(20000 / accept_len),
            "step_ms": step_ms,
            "tokens_per_chunk": accept_len,
            "prompt_tokens": 12000,
            "output_tokens": 20100,
            "cached_tokens": 0,
            "retractions": 0,
            "lossless": "holds" if speculative else None,
            "flags": "",
        }
        | changes
    )


def table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A trials table in the recording's column order."""
    content = pd.DataFrame(list(rows), columns=pd.Index([*FACTORS, *TRIAL_COLUMNS, "launch"]))
    return with_types(content)


def grid(
    *,
    algorithms: Iterable[str] = ("ar", "dflash", "ddtree"),
    temperatures: Iterable[float] = (0.0, 1.0),
    concurrencies: Iterable[int] = (1, 8, 64),
    launches: int = 2,
    replicates: int = 3,
    noise: float = 0.01,
    seed: int = 7,
) -> list[dict[str, Any]]:
    """Rows of a full run with trials nested in launches, and `noise` relative scatter."""
    rng = np.random.default_rng(seed)
    return [
        trial(
            algorithm=algorithm,
            temperature=temperature,
            concurrency=concurrency,
            launch=launch,
            replicate=launch * replicates + replicate,
            wobble=float(rng.normal(0, noise)),
        )
        for launch in range(launches)
        for algorithm, temperature, concurrency in product(algorithms, temperatures, concurrencies)
        for replicate in range(replicates)
    ]


def requests_of(trials: pd.DataFrame, *, prompts: int = 8, seed: int = 11) -> pd.DataFrame:
    """Measured requests and one warm-up request of every trial, consistent with its row."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in trials.to_dict("records"):
        base = {"trial_id": row["trial_id"], "cell_id": row["cell_id"]}
        rows += [
            base | _request({str(k): v for k, v in row.items()}, number, float(rng.normal(0, 0.05)))
            for number in range(-1, prompts)
        ]
    table = pd.DataFrame(rows, columns=pd.Index(REQUEST_COLUMNS))
    for name in ("trial_id", "cell_id", *TEXT_COLUMNS):
        table[name] = table[name].astype("category")
    return table


def _request(row: dict[str, Any], number: int, wobble: float) -> dict[str, Any]:
    tokens = 201
    tokens_a_step = row["accept_len"] if row["accept_len"] and row["accept_len"] > 1 else 1.0
    steps = round((tokens - 1) / tokens_a_step)
    sent = 1e8 * (number + 1)
    first = sent + 4e7 * (1 + abs(wobble))
    last = first + (row["step_ms"] or 10.0) * 1e6 * steps
    speculative = row["algorithm"] != "ar"
    return {
        "prompt_id": f"p{number:03d}",
        "category": "chat",
        "phase": "warmup" if number < 0 else "measured",
        "status": "ok",
        "reason": "",
        "finish_reason": "stop",
        "count_source": "server",
        "intended_ns": sent,
        "first_token_ns": first,
        "last_token_ns": last,
        "end_ns": last + 1e5,
        "prompt_tokens": 120.0,
        "output_tokens": float(tokens),
        "cached_tokens": 0.0,
        "retractions": 0.0,
        "tokens_in_first_chunk": 1.0,
        "spec_verify_ct": float(steps) if speculative else np.nan,
        "spec_accepted": steps * (tokens_a_step - 1) * (1 + wobble) if speculative else np.nan,
        "spec_proposed": steps * 7.0 if speculative else np.nan,
    }


TEXT_COLUMNS = ("prompt_id", "category", "phase", "status", "reason", "finish_reason",
                "count_source")  # fmt: skip
REQUEST_COLUMNS = (
    "trial_id", "cell_id", *TEXT_COLUMNS, "intended_ns", "first_token_ns", "last_token_ns",
    "end_ns", "prompt_tokens", "output_tokens", "cached_tokens", "retractions",
    "tokens_in_first_chunk", "spec_verify_ct", "spec_accepted", "spec_proposed",
)  # fmt: skip


def interleaved(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with start times as a good plan gives them: arms alternate between launches."""
    arms = list(dict.fromkeys(row["algorithm"] for row in rows))
    hour = {
        (launch, arm): number
        for launch, turn in enumerate((arms, arms[::-1]))
        for number, arm in enumerate(turn)
    }
    return [
        row | {"started_at": _start(row["launch"], hour[row["launch"], row["algorithm"]], number)}
        for number, row in enumerate(rows)
    ]


def _start(launch: int, hour: int, number: int) -> str:
    return f"2026-01-0{1 + launch}T{hour:02d}:{number % 60:02d}:00.000+00:00"


CLAIMS = [
    {
        "name": name,
        "verdict": "holds",
        "method": method,
        "n_tokens": 15000,
        "concurrency": 16,
        "temperature": temperature,
        "p": 0.4,
        "effect": {},
        "ci": [],
        "note": "",
    }
    for name, method, temperature in (
        ("greedy", "regret audit", 0.0),
        ("sampled", "score tests", 1.0),
    )
]


def verdict(label: str = "ddtree", **changes: Any) -> dict[str, Any]:
    """A verdict document of contract section 7 that holds."""
    return {
        "schema": 1,
        "verdict": "holds",
        "resolution": {"t_eff_pct": 3.1, "excess_greedy_pct": 0.9, "garbage_pct": 0.04},
        "claims": CLAIMS,
        "witnesses": [],
        "integrity": [],
        "not_tested": [],
        "needed": {},
        "server": {"speculative_algorithm": label},
        "block_id": f"{label}-l0",
    } | changes


SAMPLING = {
    "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 512,
    "ignore_eos": False, "frequency_penalty": 0.0, "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}  # fmt: skip
MATRIX = "name: synthetic\ncontrol: ar\nworkload: {dataset: 'builtin:mixed', api: chat}\n"


def clean(rows: list[dict[str, Any]] | None = None, **changes: Any) -> Evidence:
    """Evidence of a run without a mistake: every check has something to look at."""
    trials = table(interleaved(grid()) if rows is None else rows)
    blocks = {
        str(block): facts_of(
            block_id=str(block),
            host="local",
            version="0.5.23",
            load_s=21.5,
            phase_times={"weights": 14.0, "graphs": 5.0, "warmup": 2.5},
            server_info={
                "disable_cuda_graph": False,
                "disable_overlap_schedule": False,
                "speculative_accept_threshold_single": 1.0,
                "speculative_accept_threshold_acc": 1.0,
                "decode_log_interval": 40,
            },
            code_hash="c0ffee",
            lock="held by bench",
            spec={"flags": [["tp-size", 8], ["trust-remote-code", True]]},
        )
        for block in trials["block_id"].unique()
    }
    journal = [
        {"kind": "run_started"},
        *({"kind": "trial_sealed", "trial_id": str(t)} for t in trials["trial_id"]),
        *(
            {"kind": "block_stopped", "block_id": block, "seconds": 2.0, "bound_s": 60.0}
            for block in blocks
        ),
    ]
    gpu = pd.DataFrame(
        {"unix_s": [0.0, 1.0, 2.0], "gpu": 0, "power_w": [300.0, 620.0, 610.0],
         "temp_c": [41.0, 55.0, 60.0]}
    )  # fmt: skip
    content: dict[str, Any] = {
        "name": "20260101T000000Z-synthetic-abc",
        "path": Path("results/20260101T000000Z-synthetic-abc"),
        "manifest": {
            "name": "synthetic",
            "created_at": "2026-01-01T00:00:00.000+00:00",
            "specbench": "0.1.0",
            "matrix": MATRIX,
            "matrix_path": "experiments/synthetic.yaml",
            "hosts": {"local": {"address": None, "drive_from": "here"}},
            "dataset": {"builtin:mixed": "sha256:1234"},
            "seeds": {"plan": 0},
        },
        "trials": trials,
        "requests": requests_of(trials),
        "histograms": {
            str(row["trial_id"]): [50, 120, 260, 170]
            for row in trials.to_dict("records")
            if row["algorithm"] != "ar"
        },
        "blocks": blocks,
        "verdicts": [verdict("dflash"), verdict("ddtree")],
        "journal": journal,
        "settings": {str(t): {"sampling": SAMPLING, "workload": {}} for t in trials["trial_id"]},
        "gpu": {next(iter(blocks), ""): gpu} if blocks else {},
    }
    content |= changes
    if isinstance(content["manifest"], dict):
        content["manifest"] = msgspec.convert(content["manifest"], Manifest)
    content["verdicts"] = [as_recorded(one) for one in content["verdicts"]]
    content["journal"] = [
        entry_of(one, "journal.jsonl") if isinstance(one, dict) else one
        for one in content["journal"]
    ]
    return Evidence(**content)


def as_recorded(document: dict[str, Any]) -> RecordedVerdict:
    """Read a document as a recording's reader does."""
    return msgspec.convert(upgraded(document), RecordedVerdict)
