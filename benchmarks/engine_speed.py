"""Output tokens a second of the decoder alone, in process, on one core.

    python benchmarks/engine_speed.py [--concurrency 16] [--seconds 5] [--requests N]

CPU time of the process, not wall time, divides the tokens, so that neighbours on a shared machine
do not count. The second table is memory: resident size while many short requests pass.
"""

import argparse
import os
import resource
import time
from itertools import count

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one core

from specbench.engine.decoder import Decoder
from specbench.engine.lm import load_language
from specbench.engine.noise import NoiseConfig
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import Sequence
from specbench.engine.speculation import SpeculationConfig

QUESTIONS = (
    "How do I keep basil alive on a windowsill?",
    "Write a Python function that merges overlapping intervals and add tests.",
    "A train travels 180 kilometres in 2 hours. How far does it travel in 5 hours?",
    "Wie bereite ich mich auf eine Prüfung vor?",
    "Compare three ways to travel from Berlin to Paris in a table.",
    "Explain to a child how a bridge stays up.",
)
SPECS = {
    "ar": SpeculationConfig.ar(),
    "dflash 8": SpeculationConfig.dflash(8),
    "dflash 16": SpeculationConfig.dflash(16),
    "ddtree 16": SpeculationConfig.ddtree(16, 4),
    "eagle 5,4,8": SpeculationConfig.eagle(5, 4, 8),
    "standalone 3,1,4": SpeculationConfig.standalone(3, 1, 4),
    "ngram 12": SpeculationConfig.ngram(12, 10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU seconds a row")
    parser.add_argument("--requests", type=int, default=0, help="requests of the memory table")
    options = parser.parse_args()
    print(f"{'algorithm':18}{'T':>5}{'tok/CPU-s':>11}{'accept_len':>12}{'CPU ms/step':>13}")
    for name, spec in SPECS.items():
        for temperature in (0.0, 1.0):
            measure(name, spec, temperature, options.concurrency, options.seconds)
    if options.requests:
        memory(options.requests, options.concurrency)


def measure(
    name: str, spec: SpeculationConfig, temperature: float, concurrency: int, seconds: float
) -> None:
    decoder = Decoder(load_language(), spec, noise=NoiseConfig(sd=0.02), seed=1)
    params = SamplingParams(temperature=temperature, max_new_tokens=128, ignore_eos=True)
    tokens = steps = accepted = verified = 0
    numbers, running = count(), list[Sequence]()
    start = time.process_time()
    while time.process_time() - start < seconds:
        arrived = [request(next(numbers), params) for _ in range(concurrency - len(running))]
        if arrived:
            tokens += sum(len(emission.token_ids) for emission in decoder.prefill(arrived))
        running += arrived
        tokens += sum(len(emission.token_ids) for emission in decoder.step(running))
        steps += 1
        for sequence in (s for s in running if s.finish):
            accepted, verified = accepted + sequence.accepted, verified + sequence.verify_ct
        running = [s for s in running if s.finish is None]
    used = time.process_time() - start
    accept_len = 1 + accepted / verified if verified else 1.0
    print(
        f"{name:18}{temperature:5.1f}{tokens / used:11.0f}{accept_len:12.2f}"
        f"{used / steps * 1e3:13.2f}"
    )


def request(number: int, params: SamplingParams) -> Sequence:
    content = f"{QUESTIONS[number % len(QUESTIONS)]} ({number})"
    chat = load_language().tokenizer.chat([{"role": "user", "content": content}])
    return Sequence(str(number), chat, params)


def memory(requests: int, concurrency: int) -> None:
    decoder = Decoder(load_language(), SPECS["ddtree 16"], seed=1)
    params = SamplingParams(temperature=1.0, max_new_tokens=8)
    for number in range(0, requests, concurrency):
        running = [request(number + k, params) for k in range(concurrency)]
        decoder.prefill(running)
        while running := [s for s in running if s.finish is None]:
            decoder.step(running)
        if number % (max(requests // 5, 1) // concurrency * concurrency or concurrency) == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"after {number:8d} requests: peak resident {peak:.0f} MiB")


if __name__ == "__main__":
    main()
