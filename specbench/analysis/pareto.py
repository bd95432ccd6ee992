"""Which configuration to choose: best at each load, and the front of user against GPU speed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.arms import Levels, factor_columns, level_rows
from specbench.analysis.gate import WITHHOLDS, Lossless, flags_of, lossless_gate
from specbench.analysis.noise_floor import launches_of
from specbench.backends.recorded import recorded_facts
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS
from specbench.stats.effect import Effect, effect_of
from specbench.stats.nesting import (
    RESTART,
    TRIAL,
    Allowance,
    arm_mean,
    arm_variance,
    within_launches,
)

DRAWS = 4000


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One server configuration at one load. `tok_s` is a geometric mean with a 95 % interval.

    `tok_s_gpu` and `joule_token` are None where GPUs or power were not recorded. `p_best` is the
    probability of being the fastest of those that may be ranked; None for a configuration that is
    not lossless or whose rows are in doubt (`doubts`, flags), which is shown and never ranked.
    `on_front`: no other one is better in both
    tok_s_user and tok_s_gpu (tok_s where GPUs are unknown).
    """

    configuration: Levels
    load: Levels
    lossless: Lossless
    launches: int
    trials: int
    tok_s: float
    low: float
    high: float
    tok_s_user: float | None
    tok_s_gpu: float | None
    joule_token: float | None
    p_best: float | None
    on_front: bool
    doubts: tuple[str, ...] = ()


def choices(
    trials: pd.DataFrame,
    blocks: Mapping[str, Mapping[str, Any]],
    *,
    restart: Allowance = RESTART,
    trial: Allowance = TRIAL,
) -> tuple[Choice, ...]:
    """Rank all configurations at every load, best first; only finished trials count."""
    factors = [*factor_columns(trials), "host"]
    loads = LOAD_FACTORS | REQUEST_FACTORS | {"host"}
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], list[int]]] = {}
    usable = ((trials["status"] == "ok") & (trials["tok_s"] > 0)).tolist()
    for i, row in enumerate(level_rows(trials)):
        if usable[i]:
            load = tuple((f, row[f]) for f in factors if f in loads)
            own = tuple((f, row[f]) for f in factors if f not in loads and row[f] is not None)
            groups.setdefault(load, {}).setdefault(own, []).append(i)
    everything = [
        choice
        for load, variants in groups.items()
        for choice in _at_load(trials, blocks, dict(load), variants, restart, trial)
    ]
    return _with_front(everything)


def gpus_of(block: Mapping[str, Any]) -> int | None:
    """Count the GPUs of one server from its resolved parallel sizes; None if it did not say.

    With attention data parallelism the replicas share the tensor-parallel GPUs.
    """
    return recorded_facts(block).gpus


def _at_load(
    trials: pd.DataFrame, blocks: Mapping[str, Mapping[str, Any]], load: Levels,
    variants: Mapping[tuple[Any, ...], Sequence[int]], restart: Allowance, trial: Allowance,
) -> list[Choice]:  # fmt: skip
    tables = {own: trials.iloc[list(rows)] for own, rows in variants.items()}
    speeds = {own: _speed(table, restart, trial) for own, table in tables.items()}
    gates = {own: lossless_gate(table) for own, table in tables.items()}
    held = {
        own: tuple(flag for flag in flags_of(table) if flag in WITHHOLDS)
        for own, table in tables.items()
    }
    ranked = [own for own, gate in gates.items() if gate != "violated" and not held[own]]
    best = _best({own: speeds[own] for own in ranked})
    found = []
    for own, table in tables.items():
        low, high = speeds[own].ratio_interval()
        gpus = gpus_of(blocks.get(str(table["block_id"].iloc[0]), {}))
        found.append(
            Choice(
                configuration=dict(own),
                load=load,
                lossless=gates[own],
                launches=int(table["block_id"].nunique()),
                trials=len(table),
                tok_s=speeds[own].ratio,
                low=low,
                high=high,
                tok_s_user=_mean(table, "tok_s_user"),
                tok_s_gpu=None if gpus is None else speeds[own].ratio / gpus,
                joule_token=_mean(table, "energy_j_per_token"),
                p_best=best.get(own),
                on_front=False,
                doubts=held[own],
            )
        )
    return sorted(found, key=lambda choice: (choice.p_best is None, -choice.tok_s))


def _speed(table: pd.DataFrame, restart: Allowance, trial: Allowance) -> Effect:
    launches = launches_of(table, "tok_s")
    part = arm_variance(launches, within_launches([launches]), restart, trial)
    return effect_of(arm_mean(launches), [part])


def _best(speeds: Mapping[tuple[Any, ...], Effect], seed: int = 0) -> dict[tuple[Any, ...], float]:
    """Probability of each to be the fastest, by drawing from their errors."""
    if not speeds:
        return {}
    random = np.random.default_rng(seed)
    drawn = np.array(
        [e.value + e.se * random.standard_t(min(e.df, 1e6), DRAWS) for e in speeds.values()]
    )
    wins = np.bincount(drawn.argmax(axis=0), minlength=len(speeds)) / DRAWS
    return {own: float(share) for own, share in zip(speeds, wins, strict=True)}


def _with_front(found: Sequence[Choice]) -> tuple[Choice, ...]:
    """Mark the front among configurations that answer the same requests on the same host."""
    return tuple(msgspec.structs.replace(c, on_front=_undominated(c, found)) for c in found)


def _undominated(choice: Choice, found: Sequence[Choice]) -> bool:
    if choice.p_best is None or choice.tok_s_user is None:
        return False
    mine = (choice.tok_s_user, choice.tok_s_gpu or choice.tok_s)
    rivals = [
        (other.tok_s_user, other.tok_s_gpu or other.tok_s)
        for other in found
        if other.tok_s_user is not None
        and other.p_best is not None
        and _requests(other) == _requests(choice)
        and (other.tok_s_gpu is None) == (choice.tok_s_gpu is None)
    ]
    return not any(
        user >= mine[0] and gpu >= mine[1] and (user, gpu) != mine for user, gpu in rivals
    )


def _requests(choice: Choice) -> Levels:
    return {name: level for name, level in choice.load.items() if name not in LOAD_FACTORS}


def _mean(table: pd.DataFrame, name: str) -> float | None:
    """Geometric mean of a column; None where nothing was measured."""
    if name not in table.columns:
        return None
    known = [float(value) for value in table[name].tolist() if value is not None and value > 0]
    return math.exp(float(np.mean(np.log(known)))) if known else None
