"""The columns of the trials table in words: one definition each, with its unit."""

COLUMNS: dict[str, str] = {
    "cell_id": "content hash of everything that defines the cell",
    "trial_id": "one measured execution of a cell",
    "block_id": "the launch of the server that was measured",
    "host": "machine of hosts.yaml",
    "replicate": "number of this execution among the cell's, over all launches, from 0",
    "order": "place of the trial inside its block, from 0",
    "started_at": "UTC, ISO 8601",
    "status": "`ok`, or `failed` with a reason",
    "reason": "why a trial failed, in a sentence",
    "n_requests": "measured requests, failed ones included",
    "n_failed": "measured requests that did not end well",
    "concurrency_effective": "time average of requests in flight in the steady window",
    "client_lag_ms_p99": "how late the client itself was, 99th percentile, ms",
    "tok_s": "output tokens counted by the server / wall time of the trial, tokens a second",
    "tok_s_window": "the same inside the steady window, with requests in flight at the target",
    "tok_s_user": "median over requests of 1000 / tpot_ms, tokens a second",
    "ttft_ms_p50": "from the intended send to the first chunk with content or reasoning,"
    " median, ms",
    "ttft_ms_p99": "the same, 99th percentile, ms",
    "tpot_ms_p50": "(last token - first token) / (n - n in the first chunk), median, ms",
    "tpot_ms_p99": "the same, 99th percentile, ms",
    "tpot_n": "requests that have a tpot_ms; others came in one chunk or one stamp, or uncounted",
    "chunk_gap_ms_p50": "time between stream chunks, median, ms; no token latency where a chunk"
    " holds several tokens",
    "e2e_ms_p50": "from the intended send to the end of the stream, median, ms",
    "e2e_ms_p99": "the same, 99th percentile, ms",
    "accept_len": "1 + accepted drafts / verify steps, pooled over requests; plain decoding is 1.0",
    "accept_len_request_mean": "mean over requests of the same",
    "accept_len_server": "what the server itself reports, kept for reconciliation",
    "verify_steps": "verify steps of all measured requests; decode steps for plain decoding",
    "step_ms": "decode time / verify steps, ms",
    "tokens_per_chunk": "output tokens a stream chunk, by the server's counts",
    "prompt_tokens": "prompt tokens of all measured requests",
    "output_tokens": "output tokens of all measured requests",
    "cached_tokens": "prompt tokens that the server took from its prefix cache",
    "retractions": "requests that the server took out of the running batch for lack of KV memory",
    "gpu_power_w": "mean power of the server's GPUs during the trial, watts",
    "gpu_temp_c_max": "highest GPU temperature during the trial, degrees Celsius",
    "lossless": "the verdict that applies to this row: holds, violated, inconclusive or untested;"
    " empty for the control",
    "flags": "doubts about this row, comma-separated; each is explained in the list of flags",
}

EXTRA_COLUMNS: dict[str, str] = {
    "in_doubt": "which figures of the row are withheld, and why: the reasons behind"
    " `stamps_in_doubt` and `counts_in_doubt`",
    "energy_j_per_token": "gpu_power_w / tok_s: energy of all GPUs of the server for one output"
    " token, joules; a column of recordings in which power was measured",
    "host_load_1min": "highest 1-minute load average of the server's host during the trial",
    "host_cpu_pct": "mean share of all processors of the server's host that were busy, percent",
    "host_foreign_cpu_pct": "the part of it that neither the server nor specbench used; empty where"
    " the server's processes could not be told from others",
    "host_mem_available_mib": "least memory available on the server's host, MiB",
}
"""Columns that a table has only where a trial has something to put there."""

TERMS: dict[str, str] = {
    "garbage_pct": "share of tokens, in percent, whose regret is beyond the hard margin (3 nat, or"
    " more where the server's own noise asks for it): wrong, not a near tie",
    "doubtful_pct": "share of tokens, in percent, whose regret is beyond the soft margin (1 nat)"
    " and within the hard one",
    "t_eff_pct": "how far the temperature that fits the sampled tokens is from the one asked for,"
    " in percent; positive: sampled hotter",
    "excess_greedy_pct": "share of tokens, in percent, that were the target's first choice beyond"
    " what the temperature gives; negative: too few of them",
    "regret": "how far an emitted token lies below the target's first choice at the same context,"
    " in nat, by the target's own prefill; 0 is the first choice itself",
    "place": "number of a token within its verify round, from 0; Z by place shows where in a round"
    " tokens are too unlikely or too likely",
    "independent coins": "equal prompts side by side must draw with random numbers of their own:"
    " their answers agree no more often than chance gives",
    "frozen contexts": "one context asked many times, so that the distribution of its next tokens"
    " is compared with the target's directly; finds a bias aligned with the drafter",
    "witness": "a wrong token that came again on a fresh request, with a command that shows what"
    " the target itself chooses",
    "not lossless": "a verdict says that the output is not the target's: the speed beside it ranks"
    " nowhere",
}
"""Words of verdicts and of the page, explained where they are read."""
