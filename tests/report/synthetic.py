"""Recordings made of frames, with the columns of contract section 6: no server, no disk."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from specbench.recording.tables import TRIAL_COLUMNS

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
    return pd.DataFrame(list(rows), columns=pd.Index([*FACTORS, *TRIAL_COLUMNS, "launch"]))


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
