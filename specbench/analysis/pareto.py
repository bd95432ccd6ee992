"""Which configuration to choose: best at each load, and the front of user against GPU speed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.arms import Levels, factor_columns, level_rows
from specbench.analysis.gate import WITHHOLDS, Lossless, flags_of, lossless_gate
from specbench.analysis.metrics import METRICS
from specbench.analysis.pairing import side_of
from specbench.analysis.totals import Totals
from specbench.backends.recorded import recorded_facts
from specbench.model.block_facts import BlockFacts
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS
from specbench.stats.effect import Effect, Outlying, Variance, effect_of
from specbench.stats.launches import CLOCKS, LaunchPrior, Pairs, noise_of
from specbench.stats.ranking import SLOW, win_shares

BEST = 0.9
"""Probability from which a configuration is called best. Below it no prior was found under which
the probability was true within 5 points, so it is not shown."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One server configuration at one load. `tok_s` is a geometric mean with a 95 % interval.

    `tok_s_gpu` and `joule_token` are None where GPUs or power were not recorded. `ranked` says that
    the configuration is lossless as far as known and its rows are not in doubt (`doubts`, flags).
    `p_best` is the probability of being the fastest of the ranked ones; None at all of them where
    none reaches 0.9: which is best is not decided then.
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
    ranked: bool
    p_best: float | None
    on_front: bool
    doubts: tuple[str, ...] = ()


class _Speed(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration's log speed by launch, and the variance that requests give its mean."""

    by_launch: tuple[float, ...]
    requests: Variance
    tok_s: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.by_launch))

    @property
    def squares(self) -> float:
        return float(np.var(self.by_launch)) * len(self.by_launch)

    def effect(self, prior: LaunchPrior) -> Effect:
        """Return the mean tok_s with its error: launches, then requests."""
        r = len(self.by_launch)
        seen = self.squares / max(r - 1, 1) - self.requests.value * r
        pair = prior.moderated(2 * seen, r)
        outlying = prior.outlying and Outlying(share=SLOW, sd=prior.outlying.sd)
        parts = [Variance(value=pair.value / 2 / r, df=pair.df), self.requests]
        return effect_of(math.log(self.tok_s), parts, outlying if r == 1 else None)


def choices(
    trials: pd.DataFrame,
    blocks: Mapping[str, BlockFacts],
    totals: Totals,
    *,
    prior: LaunchPrior = CLOCKS,
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
        for choice in _at_load(trials, blocks, totals, dict(load), variants, prior)
    ]
    return _with_front(everything)


def gpus_of(block: BlockFacts) -> int | None:
    """Count the GPUs of one server from its resolved parallel sizes; None if it did not say.

    With attention data parallelism the replicas share the tensor-parallel GPUs.
    """
    return recorded_facts(block).gpus


def _at_load(
    trials: pd.DataFrame, blocks: Mapping[str, BlockFacts], totals: Totals, load: Levels,
    variants: Mapping[tuple[Any, ...], Sequence[int]], prior: LaunchPrior,
) -> list[Choice]:  # fmt: skip
    tables = {own: trials.iloc[list(rows)] for own, rows in variants.items()}
    speeds = {own: _speed(table, totals) for own, table in tables.items()}
    gates = {own: lossless_gate(table) for own, table in tables.items()}
    held = {
        own: tuple(flag for flag in flags_of(table) if flag in WITHHOLDS)
        for own, table in tables.items()
    }
    ranked = [own for own, gate in gates.items() if gate != "violated" and not held[own]]
    best = _best({own: speeds[own] for own in ranked}, prior)
    found = []
    for own, table in tables.items():
        effect = speeds[own].effect(prior)
        low, high = effect.ratio_interval()
        gpus = gpus_of(blocks.get(str(table["block_id"].iloc[0]), BlockFacts()))
        found.append(
            Choice(
                configuration=dict(own),
                load=load,
                lossless=gates[own],
                launches=int(table["block_id"].nunique()),
                trials=len(table),
                tok_s=effect.ratio,
                low=low,
                high=high,
                tok_s_user=_mean(table, "tok_s_user"),
                tok_s_gpu=None if gpus is None else effect.ratio / gpus,
                joule_token=_mean(table, "energy_j_per_token"),
                ranked=own in ranked,
                p_best=best.get(own),
                on_front=False,
                doubts=held[own],
            )
        )
    return sorted(found, key=lambda choice: (not choice.ranked, -choice.tok_s))


def _speed(table: pd.DataFrame, totals: Totals) -> _Speed:
    """Rate of the steady window where requests show it, else tok_s as it stands."""
    rows = table.sort_values(["block_id", "trial_id"])
    trials = rows["trial_id"].astype(str).tolist()
    _, launch = np.unique(rows["block_id"].astype(str).to_numpy(), return_inverse=True)
    logs, share, met = side_of(METRICS["tok_s"], totals, trials)
    tok_s = np.log(rows["tok_s"].to_numpy(dtype=float))
    if not np.isfinite(logs).all():
        pairs = Pairs(launch=launch, value=tok_s)
    else:
        pairs = Pairs(launch=launch, value=logs, share=share, met=met)
    noise = noise_of(pairs)
    known = math.isfinite(noise.requests.value)
    mean = float(Pairs(launch=launch, value=tok_s).by_launch().mean())
    return _Speed(
        by_launch=tuple(float(value) for value in pairs.by_launch()),
        requests=noise.requests if known else Variance(value=0.0),
        tok_s=math.exp(mean),
    )


def _best(
    speeds: Mapping[tuple[Any, ...], _Speed], prior: LaunchPrior
) -> dict[tuple[Any, ...], float]:
    """Probability of each to be the fastest; nothing where none reaches 0.9."""
    if not speeds:
        return {}
    mine = list(speeds.values())
    shares = win_shares(
        [one.mean for one in mine],
        [len(one.by_launch) for one in mine],
        [one.squares for one in mine],
        [one.requests.value for one in mine],
        prior,
    )
    if shares.max() < BEST:
        return {}
    return {own: float(share) for own, share in zip(speeds, shares, strict=True)}


def _with_front(found: Sequence[Choice]) -> tuple[Choice, ...]:
    """Mark the front among configurations that answer the same requests on the same host."""
    return tuple(msgspec.structs.replace(c, on_front=_undominated(c, found)) for c in found)


def _undominated(choice: Choice, found: Sequence[Choice]) -> bool:
    if not choice.ranked or choice.tok_s_user is None:
        return False
    mine = (choice.tok_s_user, choice.tok_s_gpu or choice.tok_s)
    rivals = [
        (other.tok_s_user, other.tok_s_gpu or other.tok_s)
        for other in found
        if other.tok_s_user is not None
        and other.ranked
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
