"""Synthetic recordings with a known truth: the columns of contract section 6, nothing else."""

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from specbench.model.block_facts import BlockFacts
from specbench.model.columns import TRIAL_COLUMNS
from specbench.recording.tables import with_types
from tests.recording.blocks import facts_of


@dataclass(frozen=True)
class Side:
    """One arm's truth. `step_ms` at each concurrency is `step_ms * concurrency ** slowing`."""

    algorithm: str
    levels: dict[str, Any] = field(default_factory=dict)
    concurrency: tuple[int, ...] = (1,)
    launches: int = 2
    trials: int = 2
    accept_len: float = 1.0
    step_ms: float = 10.0
    slowing: float = 0.0
    launch_sd: float = 0.005
    lossless: str | None = "holds"
    flags: str = ""
    server: dict[str, Any] = field(default_factory=dict)
    env: tuple[tuple[str, str], ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    prompts: tuple[int, int] = (0, 30)
    length: float = 1.0


SERVER = {"tp_size": 1, "pp_size": 1, "dp_size": 1, "max_running_requests": 64, "random_seed": 1}


def recording(
    *sides: Side, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, BlockFacts]]:
    """Measure all sides: the tables of trials and requests, and the facts of each launch."""
    random = np.random.default_rng(seed)
    texts = np.random.default_rng(99)
    lengths = texts.integers(50, 150, 200)
    suits = texts.normal(0, 0.05, 200)
    factors = list(
        dict.fromkeys(["algorithm", *(f for s in sides for f in s.levels), "concurrency"])
    )
    trials: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    blocks: dict[str, BlockFacts] = {}
    for number, side in enumerate(sides):
        for launch in range(side.launches):
            block = f"b{number}.{launch}"
            blocks[block] = _block(side, block, seed=int(random.integers(1, 1000)))
            pace = float(np.exp(random.normal(0, side.launch_sd)))
            for concurrency in side.concurrency:
                for replicate in range(side.trials):
                    trial = f"{block}.{concurrency}.{replicate}"
                    rows = _requests(side, trial, pace, concurrency, random, lengths, suits)
                    requests += rows
                    levels = {"algorithm": side.algorithm} | side.levels
                    levels["concurrency"] = concurrency
                    trials.append(
                        {name: levels.get(name) for name in factors}
                        | _row(side, trial, block, replicate, concurrency, rows)
                    )
    table = with_types(pd.DataFrame(trials, columns=[*factors, *TRIAL_COLUMNS]))
    return table, pd.DataFrame(requests), blocks


def _block(side: Side, block: str, seed: int) -> BlockFacts:
    speculative = side.algorithm != "ar"
    flags = [["speculative-algorithm", side.algorithm.upper()]] if speculative else []
    said = {
        "block_id": block,
        "spec": {"speculative": speculative, "flags": flags, "env": [list(e) for e in side.env],
                 "model_path": "/models/m"},
        "version": "0.5.23",
        "server_info": SERVER | {"random_seed": seed} | side.server
        | {"speculative_algorithm": side.algorithm.upper() if speculative else None},
        "client": {"host": "laptop", "drive_from": "here"},
    } | side.facts  # fmt: skip
    return facts_of(**said)


def _requests(
    side: Side, trial: str, pace: float, concurrency: int, random: np.random.Generator,
    lengths: np.ndarray, suits: np.ndarray,
) -> list[dict[str, Any]]:  # fmt: skip
    rows = []
    slots = [0.0] * concurrency
    step_ns = side.step_ms * 1e6 * concurrency**side.slowing * pace
    for i in range(*side.prompts):
        tokens = round(lengths[i] * side.length)
        accept = 1 + (side.accept_len - 1) * float(np.exp(suits[i])) if side.accept_len > 1 else 1.0
        steps = max(1, round((tokens - 1) / accept))
        took = step_ns * steps * float(np.exp(random.normal(0, 0.01)))
        speculative = side.algorithm != "ar"
        sent = heapq.heappop(slots)
        first = sent + 5_000_000
        heapq.heappush(slots, first + took)
        rows.append(
            {
                "rid": f"{trial}.{i}", "trial_id": trial, "prompt_id": f"p{i}",
                "category": "code" if i % 2 else "chat", "phase": "measured", "status": "ok",
                "intended_ns": sent, "written_ns": sent, "first_token_ns": first,
                "last_token_ns": first + took, "end_ns": first + took,
                "output_tokens": tokens, "prompt_tokens": 20, "cached_tokens": 0,
                "tokens_in_first_chunk": 1,
                "spec_verify_ct": steps if speculative else None,
                "spec_accepted": tokens - 1 - steps if speculative else None,
                "spec_proposed": 15 * steps if speculative else None,
                "spec_histogram": [0, steps] if speculative else None,
                "chunk_tokens": [1, *[1] * steps] if speculative else [],
            }
        )  # fmt: skip
    return rows


def _row(
    side: Side, trial: str, block: str, replicate: int, concurrency: int,
    rows: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    tokens = sum(row["output_tokens"] for row in rows)
    busy = sum(row["end_ns"] - row["written_ns"] for row in rows) / 1e9
    decode = sum(row["last_token_ns"] - row["first_token_ns"] for row in rows) / 1e6
    steps = sum(row["spec_verify_ct"] or row["output_tokens"] - 1 for row in rows)
    accepted = sum(row["spec_accepted"] or 0 for row in rows)
    return {
        "cell_id": f"{side.algorithm}.{concurrency}", "trial_id": trial, "block_id": block,
        "host": "local", "replicate": replicate, "order": 0, "status": "ok", "reason": "",
        "n_requests": len(rows), "n_failed": 0, "concurrency_effective": float(concurrency),
        "tok_s": concurrency * tokens / busy, "tok_s_user": 1000 * tokens / decode,
        "ttft_ms_p50": 5.0, "accept_len": 1 + accepted / steps, "verify_steps": steps,
        "step_ms": decode / steps, "output_tokens": tokens, "prompt_tokens": 20 * len(rows),
        "cached_tokens": 0, "lossless": side.lossless if side.algorithm != "ar" else None,
        "flags": side.flags,
    }  # fmt: skip
