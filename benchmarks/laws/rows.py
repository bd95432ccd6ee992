"""Request rows and trial rows of a group of trials that are played together."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.laws.queue import Engine, Played, play
from benchmarks.laws.replies import PREFILL_STEPS, Cost, Prompts, Workload, cost
from specbench.recording.tables import TRIAL_COLUMNS

Array = NDArray[np.float64]

ALGORITHMS = np.array(["chain", "tree"], dtype=object)
LAUNCH_SECONDS = 900
_START = pd.Timestamp("2026-03-02T08:00:00")


@dataclass(frozen=True)
class Faults:
    """What goes wrong. `fail_beyond`: replies of the second arm longer than that many tokens fail
    with probability `fail_share`; `fail_any`: any request of either arm fails so often;
    `retract`: share of the second arm's requests that lose their place and repeat a third.
    """

    fail_beyond: float = np.inf
    fail_share: float = 1.0
    fail_any: float = 0.0
    retract: float = 0.0


@dataclass(frozen=True)
class Group:
    """Trials of equal load: (arm, budget, launch, trial) of one concurrency and temperature.

    `pace` is the log of their time; `when` the place of each launch in the run; `gain` the log
    speed-up of the second arm by budget; `place` the group's own place inside a launch.
    """

    concurrency: int
    temperature: float
    budgets: tuple[int, ...]
    pace: Array
    when: NDArray[np.int64]
    gain: Array
    place: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Arms, budgets, launches, trials."""
        return self.pace.shape

    def indices(self) -> tuple[NDArray[np.int64], ...]:
        """Arm, budget, launch and trial of each row."""
        return tuple(part.ravel() for part in np.indices(self.shape))


@dataclass(frozen=True)
class Asked:
    """The requests of a group: their table, and the figures that trial rows are made of."""

    table: pd.DataFrame
    played: Played
    cost: Cost
    failed: NDArray[np.bool_]
    retracted: NDArray[np.bool_]
    ids: NDArray[np.object_]


def request_rows(
    group: Group, law: Workload, engine: Engine, faults: Faults, prompts: Prompts,
    random: np.random.Generator,
) -> Asked:  # fmt: skip
    """Ask every prompt in every trial and play the queue."""
    arm, budget, _, _ = group.indices()
    asked = _orders(group, law, random)
    drawn = cost(law, prompts, asked, random, greedy=group.temperature == 0)
    second = (arm == 1)[:, None]
    suited = drawn.decode * np.where(second, np.exp(prompts.suits[asked]), 1.0)
    failed, retracted = _faults(faults, drawn, second, random)
    decode = suited * np.where(failed, 0.5, np.where(retracted, 4 / 3, 1.0))
    prefill = np.full(decode.shape, PREFILL_STEPS)
    played = play(prefill, decode, drawn.tokens, group.concurrency, engine)
    slower = np.exp(group.pace.ravel() - arm * group.gain[budget])
    played = _stretched(played, slower)
    ids = _ids(group)
    table = _table(ids, asked, drawn, played, failed, retracted)
    return Asked(table, played, drawn, failed, retracted, ids)


def _orders(group: Group, law: Workload, random: np.random.Generator) -> NDArray[np.int64]:
    """Order of the prompts: by round (launch and trial), equal on all servers."""
    _, _, launches, trials = group.shape
    _, _, launch, trial = group.indices()
    rounds = np.stack(
        [
            np.concatenate([random.permutation(law.prompts) for _ in range(law.passes)])
            for _ in range(launches * trials)
        ]
    )
    return rounds[launch * trials + trial]


def _faults(
    faults: Faults, drawn: Cost, second: NDArray[np.bool_], random: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    luck = random.uniform(size=drawn.tokens.shape)
    too_long = second & (drawn.tokens > faults.fail_beyond) & (luck < faults.fail_share)
    failed = too_long | (random.uniform(size=luck.shape) < faults.fail_any)
    retracted = second & (random.uniform(size=luck.shape) < faults.retract) & ~failed
    return failed, retracted


def _stretched(played: Played, by: Array) -> Played:
    wide = by[:, None]
    return Played(
        sent=played.sent * wide,
        first=played.first * wide,
        end=played.end * wide,
        makespan=played.makespan * by,
        window_end=played.window_end * by,
        window_tokens=played.window_tokens,
        busy=played.busy,
    )


def _ids(group: Group) -> NDArray[np.object_]:
    arm, budget, launch, trial = group.indices()
    return np.array(
        [
            f"{ALGORITHMS[a]}.{group.budgets[b]}.{k}/{group.temperature:g}.{group.concurrency}.{t}"
            for a, b, k, t in zip(arm, budget, launch, trial, strict=True)
        ],
        dtype=object,
    )


def _table(
    ids: NDArray[np.object_], asked: NDArray[np.int64], drawn: Cost, played: Played,
    failed: NDArray[np.bool_], retracted: NDArray[np.bool_],
) -> pd.DataFrame:  # fmt: skip
    n = asked.shape[1]
    names = np.array([f"p{i}" for i in range(int(asked.max()) + 1)], dtype=object)
    kinds = np.array(["chat" if i % 2 else "code" for i in range(len(names))], dtype=object)
    bad = failed.ravel()
    at = asked.ravel()
    tokens, steps = drawn.tokens.ravel(), drawn.steps.ravel()
    sent, first, end = (np.rint(x.ravel() * 1e6) for x in (played.sent, played.first, played.end))
    trial = np.repeat(ids, n)
    return pd.DataFrame(
        {
            "trial_id": trial,
            "cell_id": "c",
            "rid": np.arange(bad.size),
            "prompt_id": names[at],
            "category": kinds[at],
            "phase": "measured",
            "intended_ns": sent,
            "written_ns": sent,
            "first_token_ns": first,
            "last_token_ns": np.where(bad, np.nan, end),
            "end_ns": end,
            "status": np.where(bad, "failed", "ok").astype(object),
            "reason": np.where(bad, "timeout", "").astype(object),
            "finish_reason": np.where(bad, None, "stop"),
            "prompt_tokens": 20.0,
            "output_tokens": np.where(bad, np.nan, tokens),
            "cached_tokens": 0.0,
            "retractions": retracted.ravel().astype(float),
            "tokens_in_first_chunk": 1.0,
            "spec_verify_ct": np.where(bad, np.nan, steps),
            "spec_accepted": np.where(bad, np.nan, np.maximum(0, tokens - 1 - steps)),
            "spec_proposed": np.where(bad, np.nan, 15 * steps),
        }
    )


def trial_rows(group: Group, asked: Asked) -> pd.DataFrame:
    """Summarise each trial as the recording does (contract section 6)."""
    arm, budget, launch, trial = group.indices()
    played, drawn, ok = asked.played, asked.cost, ~asked.failed
    tokens = (drawn.tokens * ok).sum(axis=1)
    steps = (drawn.steps * ok).sum(axis=1)
    accepted = (np.maximum(0, drawn.tokens - 1 - drawn.steps) * ok).sum(axis=1)
    spans = np.where(ok, played.end - played.first, 0.0)
    after = np.where(ok, played.end - played.first, np.nan) / (drawn.tokens - 1)
    begun = _begun(group)
    figures = {
        "algorithm": ALGORITHMS[arm],
        "budget": np.array(group.budgets)[budget],
        "temperature": group.temperature,
        "concurrency": group.concurrency,
        "cell_id": "c",
        "trial_id": asked.ids,
        "block_id": [name.split("/")[0] for name in asked.ids],
        "host": "local",
        "replicate": launch * group.shape[3] + trial,
        "order": trial * 100 + group.place,
        "started_at": [text.isoformat() + "Z" for text in begun],
        "status": "ok",
        "reason": "",
        "n_requests": ok.shape[1],
        "n_failed": (~ok).sum(axis=1),
        "concurrency_effective": played.busy,
        "tok_s": 1000 * tokens / played.makespan,
        "tok_s_window": 1000 * played.window_tokens / played.window_end,
        "tok_s_user": 1000 / np.nanmedian(after, axis=1),
        "ttft_ms_p50": np.median(played.first - played.sent, axis=1),
        "e2e_ms_p50": np.median(played.end - played.sent, axis=1),
        "tpot_ms_p50": np.nanmedian(after, axis=1),
        "accept_len": 1 + accepted / steps,
        "verify_steps": steps,
        "step_ms": spans.sum(axis=1) / steps,
        "prompt_tokens": 20 * ok.shape[1],
        "output_tokens": tokens,
        "cached_tokens": 0,
        "retractions": asked.retracted.sum(axis=1),
        "lossless": "holds",
        "flags": _flags(asked),
        "launch": launch,
    }
    factors = ["algorithm", "budget", "temperature", "concurrency"]
    return pd.DataFrame(figures, columns=[*factors, *TRIAL_COLUMNS, "launch"])


def _begun(group: Group) -> list[pd.Timestamp]:
    arm, budget, launch, trial = group.indices()
    at = group.when[arm, budget, launch] * LAUNCH_SECONDS + trial * 100 + group.place
    return [_START + pd.Timedelta(seconds=int(seconds)) for seconds in at]


def _flags(asked: Asked) -> list[str]:
    raised = (
        ("failed_requests", asked.failed.any(axis=1)),
        ("retractions", asked.retracted.any(axis=1)),
    )
    return [",".join(name for name, holds in raised if holds[i]) for i in range(len(asked.ids))]
