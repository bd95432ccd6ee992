"""Check on a real speculative SGLang server what `specbench verify` assumes of it.

    python benchmarks/oracle_assumptions.py http://127.0.0.1:30000

Prints one line an assumption: what was asked, what the server did, whether the assumption holds.
"""

import sys
import time
from collections import Counter, defaultdict
from typing import Any

import httpx

TEXT = "The function returns a list of the names in the module. If the argument is not a string"
LONG = " ".join(
    f"Section {i}. The method returns the value of item {i * 7 % 31}, or None." for i in range(90)
)


class Server:
    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, timeout=120.0, trust_env=False)

    def generate(self, ids: list[int], max_new: int, **more: Any) -> Any:
        sampling = {
            "max_new_tokens": max_new, "temperature": 0.0, "ignore_eos": True,
            **more.pop("sampling", {}),
        }  # fmt: skip
        body = {"input_ids": ids, "sampling_params": sampling, **more}
        answer = self.client.post("/generate", json=body)
        answer.raise_for_status()
        return answer.json()

    def flush(self) -> int:
        return self.client.post("/flush_cache").status_code

    def ids(self, text: str) -> list[int]:
        body = {
            "text": text, "return_logprob": True, "logprob_start_len": 0,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        }  # fmt: skip
        answer = self.client.post("/generate", json=body).json()
        return [entry[1] for entry in answer["meta_info"]["input_token_logprobs"]]

    def score(self, ids: list[int], start: int, top: int = 0, max_new: int = 0) -> Any:
        return self.generate(
            ids, max_new, return_logprob=True, logprob_start_len=start, top_logprobs_num=top
        )["meta_info"]


def regret_of_greedy(server: Server, prompt: list[int]) -> str:
    out = server.generate(prompt, 48)
    ids = out["output_ids"]
    server.flush()
    meta = server.score(prompt + ids, len(prompt) - 1, top=1)
    chosen = [e[0] for e in meta["input_token_logprobs"]][1:]
    best = [e[0][0] for e in meta["input_top_logprobs"][1:]]
    regret = [b - c for b, c in zip(best, chosen, strict=True)]
    return (
        f"max_new_tokens=0 accepted, {len(chosen)} scores for {len(ids)} tokens, "
        f"completion_tokens {meta['completion_tokens']}, regret max {max(regret):.4f} nat, "
        f"mean accept {out['meta_info'].get('spec_accept_length')}"
    )


def first_token_sampled(server: Server, prompt: list[int]) -> str:
    sampling = {"temperature": 1.0, "top_k": 20, "n": 16}
    outs = [o for _ in range(12) for o in server.generate(prompt, 4, sampling=sampling)]
    followers = defaultdict(Counter)
    for out in outs:
        ids = out["output_ids"]
        followers[ids[0]][tuple(ids[1:])] += 1
    _first, rest = max(followers.items(), key=lambda kv: sum(kv[1].values()))
    return (
        f"{len(followers)} first tokens in {len(outs)} draws; after the most frequent one "
        f"({sum(rest.values())} draws) {len(rest)} different continuations of 3 tokens"
    )


def chunk_per_round(server: Server, prompt: list[int]) -> str:
    body = {
        "input_ids": prompt, "stream": True,
        "sampling_params": {"max_new_tokens": 64, "temperature": 0.0, "ignore_eos": True},
    }  # fmt: skip
    counts, last = [], {}
    with server.client.stream("POST", "/generate", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                last = httpx.Response(200, text=line[6:]).json()
                counts.append(last["meta_info"]["completion_tokens"])
    steps = [b - a for a, b in zip([0, *counts], counts, strict=False)]
    meta = last["meta_info"]
    return (
        f"{len(counts)} chunks, sizes {steps}, 1 + verify_ct = {1 + meta['spec_verify_ct']}, "
        f"histogram {meta['spec_correct_drafts_histogram']}"
    )


def cost_of_top20(server: Server, long_ids: list[int]) -> str:
    times = []
    for top in (0, 20):
        server.flush()
        start = time.perf_counter()
        server.score(long_ids, 0, top=top)
        times.append(time.perf_counter() - start)
    return f"{len(long_ids)} tokens scored in {times[0]:.2f} s, with top 20 in {times[1]:.2f} s"


def n_is_independent(server: Server, prompt: list[int]) -> str:
    out = server.generate(prompt, 1, sampling={"temperature": 1.0, "n": 16})
    cached = [o["meta_info"]["cached_tokens"] for o in out]
    firsts = {o["output_ids"][0] for o in out}
    return f"{len(firsts)} different first tokens in one n=16 call, cached tokens {cached}"


def bias_in_prefill(server: Server, prompt: list[int]) -> str:
    out = server.generate(prompt, 6, sampling={"logit_bias": {"300": 100.0}})
    return f"logit_bias +100 on one token gives {out['output_ids']}"


def chunked_prefill(server: Server, long_ids: list[int]) -> str:
    scores = []
    for start in (0, len(long_ids) // 2, len(long_ids) - 33):
        server.flush()
        meta = server.score(long_ids, start)
        scores.append([e[0] for e in meta["input_token_logprobs"]][-32:])
    worst = max(abs(a - b) for other in scores[1:] for a, b in zip(scores[0], other, strict=True))
    return f"last 32 scores from three start positions differ by at most {worst:.4f} nat"


def verify_logprobs(server: Server, prompt: list[int]) -> str:
    gaps = []
    for temperature in (0.0, 0.7):
        sampling = {"temperature": temperature}
        out = server.generate(
            prompt, 64, sampling=sampling, return_logprob=True, top_logprobs_num=1
        )
        server.flush()
        said = [e[0] for e in out["meta_info"]["output_token_logprobs"]]
        meta = server.score(prompt + out["output_ids"], len(prompt) - 1)
        truth = [e[0] for e in meta["input_token_logprobs"]][1:]
        diffs = [abs(a - b) for a, b in zip(said, truth, strict=True)]
        gaps.append(f"T={temperature}: max {max(diffs):.3f} nat over {len(diffs)} tokens")
    return "; ".join(gaps)


def main() -> None:
    server = Server(sys.argv[1])
    info = server.client.get("/server_info").json()
    print(f"SGLang {info['version']}, {info['speculative_algorithm']}, dtype {info['dtype']}")
    server.flush()
    prompt, long_ids = server.ids(TEXT), server.ids(LONG)
    for number, check, ids in [
        (1, regret_of_greedy, prompt),
        (2, first_token_sampled, prompt),
        (3, chunk_per_round, prompt),
        (4, cost_of_top20, long_ids),
        (5, n_is_independent, prompt),
        (6, bias_in_prefill, prompt),
        (7, chunked_prefill, long_ids),
        (8, verify_logprobs, prompt),
    ]:
        print(f"({number}) {check.__name__}: {check(server, ids)}", flush=True)


if __name__ == "__main__":
    main()
