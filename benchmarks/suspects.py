"""How often is the true cause of a fault the first suspect, or among the first three?

    python benchmarks/suspects.py                    budget quick, full scores, chain and tree
    python benchmarks/suspects.py --level draws --budget default

Every fault of the embedded engine whose violation needs an explanation is verified to the end in
this process. A suspect names the cause if its text holds one of the fault's words below. Results go
to benchmarks/results/suspects.jsonl; an interrupted benchmark goes on.
"""

import argparse
import json
from pathlib import Path

from engine_client import EngineClient
from fault_matrix import LACKS, SHAPES, TREE_ONLY

from specbench.engine.faults import FAULTS
from specbench.engine.lm import load_language
from specbench.verify.battery import run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.options import VerifyOptions

RESULTS = Path(__file__).parent / "results" / "suspects.jsonl"
# Faults of counters and log-probabilities have an integrity finding, and no suspect.
UNEXPLAINED = {"counters-lie", "logprobs-lie"}
WORDS = {
    "sibling-visible-mask": "mask",
    "positions-by-index": "positions",
    "wrong-row-accept": "verify row",
    "unchecked-accept": "unchecked",
    "bonus-from-draft": "bonus",
    "bonus-from-root-row": "verify row",
    "kv-commit-off-by-one": "KV commit",
    "kv-path-not-compacted": "compaction",
    "kv-rejected-slot-kept": "KV commit",
    "kv-cached-prefix-corrupt": "prefix cache",
    "corrupt-at-concurrency": "batch",
    "corrupt-after-deep-acceptance": "KV commit",
    "corrupt-beyond-length": "KV commit",
    "corrupt-after-requests": "KV commit",
    "token-lost": "commit",
    "duplicate-siblings": "residual",
    "residual-keeps-rejected": "residual",
    "residual-unnormalised": "residual",
    "coin-reused-across-siblings": "coins",
    "coin-reused-across-depths": "coins",
    "coin-reused-across-requests": "coins are shared",
    "coin-reused-for-bonus": "coins",
    "threshold-single": "thresholds",
    "threshold-acc": "thresholds",
    "greedy-verify": "verification is greedy",
    "temperature-ignored": "temperature",
    "temperature-twice": "temperature",
    "top-p-ignored": "top_p is not applied",
    "top-k-ignored": "top_k is not applied",
    "penalties-ignored": "penalties",
    "logit-bias-ignored": "logit_bias is not applied",
    "eos-swallowed": "stop tokens",
    "eos-late": "stop tokens",
    "max-new-tokens-overrun": "max_new_tokens",
    "text-loses-characters": "text",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", default="scores", choices=list(LACKS))
    parser.add_argument("--budget", default="quick")
    options = parser.parse_args()
    language = load_language()
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = {(r["fault"], r["shape"], r["level"], r["budget"]): r for r in map(json.loads, lines)}
    ranks: list[int | None] = []
    for fault in (name for name in FAULTS if name in WORDS):
        for shape in SHAPES:
            if shape == "chain" and fault in TREE_ONLY:
                continue
            key = (fault, shape, options.level, options.budget)
            row = rows.get(key) or _measure(language, *key)
            if key not in rows:
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if row["exit_status"] != 1:
                continue
            rank = next((k for k, t in enumerate(row["suspects"]) if WORDS[fault] in t), None)
            ranks.append(rank)
            print(f"{fault:30} {shape:6} {'not named' if rank is None else rank + 1}", flush=True)
    first, three = (sum(r is not None and r < k for r in ranks) for k in (1, 3))
    n = max(len(ranks), 1)
    print(
        f"of {len(ranks)} convicted servers: the true cause stands first in {first} "
        f"({100 * first / n:.0f} %), in the first three in {three} ({100 * three / n:.0f} %)"
    )


def _measure(language: object, fault: str, shape: str, level: str, budget: str) -> dict:
    client = EngineClient(
        language, SHAPES[shape], (fault,), noise_sd=0.02, seed=3, lacks=LACKS[level]
    )
    *_, last = run_battery(client, VerifyOptions(budget=budget, seed=3))
    assert isinstance(last, VerdictReady)
    return {
        "fault": fault,
        "shape": shape,
        "level": level,
        "budget": budget,
        "exit_status": last.document.exit_status,
        "suspects": [one.text for one in last.document.suspects],
    }


if __name__ == "__main__":
    main()
