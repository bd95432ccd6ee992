"""How often does the battery accuse a lossless server? Clean engines, many seeds.

    python benchmarks/false_alarms.py --seeds 300
    python benchmarks/false_alarms.py --level draws --budget default --noise 0 0.02 0.05 --seeds 300

Each run verifies a clean decoder in this process (chain and tree in turn, the noises in turn), as a
server of one level of evidence. Prints every run and, at the end, the number of accusations with
its exact upper limit. Results go to benchmarks/results/false_alarms.jsonl; an interrupted benchmark
goes on.
"""

import argparse
import json
import time
from pathlib import Path

from engine_client import EngineClient
from fault_matrix import COMMIT, LACKS, SHAPES

from specbench.engine.lm import load_language
from specbench.stats.counts import poisson_upper
from specbench.verify.battery import run_battery
from specbench.verify.events import VerdictReady
from specbench.verify.options import VerifyOptions

RESULTS = Path(__file__).parent / "results" / "false_alarms.jsonl"
NOISE = (0.0, 0.01, 0.02, 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--level", default="scores", choices=list(LACKS))
    parser.add_argument("--budget", default="quick")
    parser.add_argument("--noise", nargs="*", type=float, default=NOISE, help="nat, in turn")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after this")
    options = parser.parse_args()
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    wanted = (options.budget, options.level)
    known = map(json.loads, lines)
    rows = [r for r in known if (r["budget"], r.get("level", "scores")) == wanted]
    done = {(r["seed"], r["noise"]) for r in rows}
    language, start = load_language(), time.monotonic()
    for seed in range(options.seeds):
        shape, noise = list(SHAPES)[seed % 2], options.noise[seed // 2 % len(options.noise)]
        if (seed, noise) in done or time.monotonic() - start > options.seconds:
            continue
        client = EngineClient(
            language, SHAPES[shape], noise_sd=noise, seed=seed, lacks=LACKS[options.level]
        )
        events = list(run_battery(client, VerifyOptions(budget=options.budget, seed=seed)))
        assert isinstance(events[-1], VerdictReady)
        document = events[-1].document
        row = {
            "commit": COMMIT,
            "seed": seed,
            "shape": shape,
            "noise": noise,
            "budget": options.budget,
            "level": options.level,
            "verdict": document.verdict,
            "reason": document.reason[:200],
            "integrity": len(document.integrity),
            "smallest_p": min((c.p for c in document.claims if c.p is not None), default=None),
            "tokens": document.stats["generated_tokens"],
        }
        rows.append(row)
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)
    accused = sum(r["verdict"] == "violated" or r["integrity"] > 0 for r in rows)
    held = sum(r["verdict"] == "holds" for r in rows)
    for noise in options.noise:
        some = [r for r in rows if r["noise"] == noise]
        wrong = sum(r["verdict"] == "violated" or r["integrity"] > 0 for r in some)
        print(f"noise {noise:g}: {wrong} of {len(some)} accused")
    print(
        f"{accused} of {len(rows)} clean servers accused (95 % upper limit "
        f"{min(100 * poisson_upper(accused, 0.95) / max(len(rows), 1), 100):.2f} %), {held} hold, "
        f"{len(rows) - accused - held} inconclusive"
    )


if __name__ == "__main__":
    main()
