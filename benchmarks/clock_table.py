"""Print the clock's throughput by concurrency beside the public table it was fitted to.

    python benchmarks/clock_table.py

Source: model card of z-lab/Qwen3.5-4B-DFlash (SGLang, one B200, block 16, Math500).
"""

from specbench.engine.server.clock import GPUS, MODELS, Clock, round_of

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


def main() -> None:
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
