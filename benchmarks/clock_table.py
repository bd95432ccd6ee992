"""Print the clock's throughput beside the public table it was fitted to, or beside a recording.

    python benchmarks/clock_table.py               # the public table
    python benchmarks/clock_table.py RECORDING     # latencies at concurrency 1 beside the clock

Source: model card of z-lab/Qwen3.5-4B-DFlash (SGLang, one B200, block 16, Math500).
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.engine.server.build import round_shape
from specbench.engine.server.clock import GPUS, MODELS, Clock, guess_model, round_of

PUBLISHED = {1: (274, 959), 8: (1971, 5851), 16: (3663, 8563), 32: (5836, 10713)}
ACCEPT_LEN = 6.3
CONTEXT = 1500


def rows() -> list[tuple[int, float, float, float, float]]:
    """Concurrency, then AR and DFlash tok/s of the clock, then their errors in per cent."""
    clock = Clock(GPUS["b200"], MODELS["qwen3.5-4b"])
    plain = round_of(None, steps=0, topk=0, width=1, block=0)
    block = round_of("DFLASH", steps=1, topk=1, width=16, block=16)
    table = []
    for n, (ar, dflash) in PUBLISHED.items():
        ar_tok_s = n / clock.step_s(plain, n, n * CONTEXT)
        dflash_tok_s = n * ACCEPT_LEN / clock.step_s(block, n, n * CONTEXT)
        errors = (100 * (ar_tok_s / ar - 1), 100 * (dflash_tok_s / dflash - 1))
        table.append((n, ar_tok_s, dflash_tok_s, *errors))
    return table


def modelled(
    server: Mapping[str, Any], accept_len: float, prompts: Sequence[float]
) -> dict[str, float]:
    """Latency columns of one request at a time, as the clock gives them.

    `server` is the server's own account of its arguments, `accept_len` what was measured,
    `prompts` the lengths of the prompts, of which none was cached. The reply's first token comes
    with its prefill; each step after it gives accept_len tokens.
    """
    own = server["specbench_engine"]
    size = own["clock_model"] or guess_model(str(server["model_path"]))
    clock = Clock(GPUS[own["gpu"]], MODELS[size])
    chunk = int(server["chunked_prefill_size"] or 0)
    ordered = sorted(clock.chunked_prefill_s(int(n), 0, chunk) for n in prompts)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    context = round(sum(prompts) / len(prompts))
    step = clock.step_s(round_shape(dict(server)), 1, context)
    return {
        "step_ms": 1000 * step,
        "tpot_ms_p50": 1000 * step / accept_len,
        "tok_s_user": accept_len / step,
        "ttft_ms_p50": 1000 * middle,
    }


def beside(path: Path) -> list[str]:
    """Lines of a Markdown table: each latency column of a recording beside the clock's."""
    from specbench.workflows.recording_open import open_recording  # noqa: PLC0415 - slow to load

    recording = open_recording(path)
    trials, requests = recording.trials, recording.requests
    chosen = trials[(trials["concurrency"] == 1) & (trials["temperature"] == 0)]
    lines = ["| arm | column | measured | clock | difference |", "|---|---|---|---|---|"]
    for row in chosen.to_dict("records"):
        mine = requests[(requests["trial_id"] == row["trial_id"]) & (requests["status"] == "ok")]
        prompts = mine.loc[mine["phase"] == "measured", "prompt_tokens"].tolist()
        server = recording.blocks[row["block_id"]].server_info
        arm = " ".join(str(row[name]) for name in ("algorithm", "budget", "topk") if name in row)
        for name, clock in modelled(server, float(row["accept_len"]), prompts).items():
            value = float(row[name])
            off = f"{100 * (value / clock - 1):+.1f} %" if value > 0 else "withheld"
            told = f"{value:.4g}" if value > 0 else "-"
            lines.append(f"| {arm} | {name} | {told} | {clock:.4g} | {off} |")
    return lines


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(beside(Path(sys.argv[1]))))
        return
    print("concurrency | AR tok/s (published) | DFlash tok/s (published) | speed-up (published)")
    for n, ar, dflash, ar_error, dflash_error in rows():
        known = PUBLISHED[n]
        print(
            f"{n:11d} | {ar:6.0f} ({known[0]:5d}, {ar_error:+5.1f} %) "
            f"| {dflash:6.0f} ({known[1]:5d}, {dflash_error:+5.1f} %) "
            f"| {dflash / ar:4.2f} ({known[1] / known[0]:4.2f})"
        )


if __name__ == "__main__":
    main()
