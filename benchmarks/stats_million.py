"""Time and memory of comparing a million request rows.

    python benchmarks/stats_million.py [--rows 1000000] [--json]

Two arms, five concurrencies, four launches of two trials each, 2,000 prompts, histograms and chunk
lists included. Building the tables is not counted. Exits with status 1 over 10 s or 2 GB.
"""

import argparse
import json
import resource
import sys
import time

import numpy as np
import pandas as pd

from specbench.analysis.compare import compare
from specbench.model.block_facts import BlockFacts
from specbench.model.columns import TRIAL_COLUMNS
from specbench.model.plan import LaunchSpec

ARMS = {"ar": (1.0, 10.0), "ddtree": (3.5, 14.0)}
CONCURRENCY = (1, 4, 16, 64, 128)
LAUNCHES, TRIALS, PROMPTS = 4, 2, 2000


def tables(rows: int) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, BlockFacts]]:
    random = np.random.default_rng(0)
    per_trial = rows // (len(ARMS) * len(CONCURRENCY) * LAUNCHES * TRIALS)
    trials, parts = [], []
    blocks: dict[str, BlockFacts] = {}
    for algorithm, (accept, step_ms) in ARMS.items():
        for launch in range(LAUNCHES):
            block = f"{algorithm}.{launch}"
            blocks[block] = BlockFacts(spec=_spec(algorithm), server_info={"tp_size": 1})
            for concurrency in CONCURRENCY:
                for replicate in range(TRIALS):
                    trial = f"{block}.{concurrency}.{replicate}"
                    part, speed = one_trial(random, trial, per_trial, accept, step_ms, concurrency)
                    parts.append(part)
                    trials.append(
                        dict.fromkeys(TRIAL_COLUMNS)
                        | {"algorithm": algorithm, "concurrency": concurrency, "cell_id": "c"}
                        | {"trial_id": trial, "block_id": block, "host": "h", "status": "ok"}
                        | {"tok_s": speed, "accept_len": accept, "step_ms": step_ms, "flags": ""}
                        | {"concurrency_effective": float(concurrency)}
                    )
    table = pd.DataFrame(trials)[["algorithm", "concurrency", *TRIAL_COLUMNS]]
    return table, pd.concat(parts, ignore_index=True), blocks


def _spec(algorithm: str) -> LaunchSpec:
    return LaunchSpec(
        fingerprint=algorithm,
        algorithm=algorithm,
        speculative=algorithm != "ar",
        model_path="m",
        served_name="m",
    )


def one_trial(
    random: np.random.Generator, trial: str, rows: int, accept: float, step_ms: float, c: int
) -> tuple[pd.DataFrame, float]:
    prompt = np.arange(rows) % PROMPTS
    tokens = 100 + prompt % 50
    steps = np.round((tokens - 1) / accept).astype(int)
    took = steps * step_ms * 1e6 * np.exp(random.normal(0, 0.03, rows)) * c**0.3
    histogram = [2, 3, 4, 5, 6, 7, 8]
    part = pd.DataFrame(
        {
            "rid": [f"{trial}.{i}" for i in range(rows)],
            "trial_id": trial,
            "prompt_id": [f"p{i}" for i in prompt],
            "category": np.where(prompt % 2, "code", "chat"),
            "phase": "measured",
            "status": "ok",
            "intended_ns": 0,
            "written_ns": 0,
            "first_token_ns": 5_000_000,
            "last_token_ns": 5_000_000 + took,
            "end_ns": 5_000_000 + took,
            "output_tokens": tokens,
            "prompt_tokens": 50,
            "cached_tokens": 0,
            "tokens_in_first_chunk": 1,
        }
    )
    if accept > 1:
        part = part.assign(spec_verify_ct=steps, spec_accepted=tokens - 1 - steps)
        part["spec_proposed"] = 16 * steps
        part["spec_histogram"] = [histogram] * rows
        part["chunk_tokens"] = [[1, *[3] * n] for n in steps]
    return part, float(c * tokens.sum() / (took.sum() / 1e9))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    trials, requests, blocks = tables(options.rows)
    clock, cpu = time.perf_counter(), time.process_time()
    answer = compare(trials, requests, blocks, "ar", "ddtree")
    wall, used = time.perf_counter() - clock, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = {
        "rows": len(requests),
        "wall_s": round(wall, 2),
        "cpu_s": round(used, 2),
        "peak_gb_with_the_tables": round(peak, 2),
        "cells": len(answer.cells),
    }
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['rows']} request rows, {found['cells']} cells: {wall:.1f} s"
            f" ({used:.1f} s of processor), peak memory {peak:.2f} GB with the tables"
        )
    return 0 if used < 10 and peak < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
