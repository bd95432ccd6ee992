"""Trials nested in launches: the variance of a launch, with an allowance until data give it.

One restart carries its own variance (graph capture, autotune, memory layout, clocks), which no
number of trials inside the launch can show. An arm that was launched once is therefore given an
allowance; launches of the same server, in this recording or in earlier ones, replace it.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from specbench.stats.effect import Effect, Variance, effect_of

Launches = Sequence[Sequence[float]]
"""One arm: the log metric of each trial, grouped by launch."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviation (of a log metric) taken for granted, worth `df` degrees of freedom.

    `source` is said in every output that rests on it.
    """

    sd: float
    df: float
    source: str


RESTART = Allowance(sd=0.015, df=3.0, source="default: 1.5 % between launches")
TRIAL = Allowance(sd=0.006, df=4.0, source="default: 0.6 % between trials of one launch")


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """What replicates say of the noise: standard deviations of a log metric, with their df.

    `trial` is within launches; `restart` is between launches after the trials' share is taken
    out, never below zero. NaN with df 0 where nothing was replicated.
    """

    restart: float
    restart_df: int
    trial: float
    trial_df: int


def within_launches(arms: Sequence[Launches]) -> Variance:
    """Pool the variance of trials around their launch's mean; NaN with df 0 where none repeats."""
    squares = 0.0
    df = 0
    for launch in (launch for arm in arms for launch in arm):
        if len(launch) > 1:
            squares += float(np.var(launch)) * len(launch)
            df += len(launch) - 1
    return Variance(value=squares / df, df=df) if df else Variance(value=math.nan, df=0)


def between_launches(arm: Launches) -> Variance:
    """Return the variance of launch means inside one arm; NaN with df 0 for a single launch."""
    means = [float(np.mean(launch)) for launch in arm]
    if len(means) < 2:
        return Variance(value=math.nan, df=0)
    return Variance(value=float(np.var(means, ddof=1)), df=len(means) - 1)


def spread(groups: Sequence[Launches]) -> Spread:
    """Estimate launch and trial noise from groups of launches of one and the same cell.

    Method of moments for a nested design (Searle, Casella, McCulloch, "Variance Components",
    1992, ch. 3).
    """
    trial = within_launches(groups)
    parts = [between_launches(group) for group in groups]
    df = sum(part.df for part in parts)
    if not df:
        return Spread(
            restart=math.nan, restart_df=0, trial=math.sqrt(trial.value), trial_df=int(trial.df)
        )
    means = sum(part.value * part.df for part in parts if part.df) / df
    share = trial.value / trials_per_launch(groups) if trial.df else 0.0
    return Spread(
        restart=math.sqrt(max(0.0, means - share)),
        restart_df=int(df),
        trial=math.sqrt(trial.value),
        trial_df=int(trial.df),
    )


def trials_per_launch(groups: Sequence[Launches]) -> float:
    """Harmonic mean of the number of trials a launch."""
    counts = [len(launch) for group in groups for launch in group]
    return len(counts) / sum(1 / count for count in counts)


def arm_variance(
    arm: Launches, trial: Variance, restart: Allowance, trial_allowance: Allowance
) -> Variance:
    """Return the variance of an arm's mean over its launches.

    The variance of one launch's mean is the allowance (restart plus the trials' share) and the
    observed variance between launches, weighted by degrees of freedom: a scaled inverse
    chi-square prior (Smyth 2004, "moderated t"). With one launch it is the allowance alone; with
    many it is Welch's.
    """
    known = trial if trial.df else Variance(value=trial_allowance.sd**2, df=trial_allowance.df)
    prior = restart.sd**2 + known.value / trials_per_launch([arm])
    seen = between_launches(arm)
    observed = seen.value * seen.df if seen.df else 0.0
    df = restart.df + seen.df
    one_launch = (restart.df * prior + observed) / df if math.isfinite(df) else prior
    return Variance(value=one_launch / len(arm), df=df)


def arm_mean(arm: Launches) -> float:
    """Mean over launches of the mean over trials, so that each launch weighs the same."""
    return float(np.mean([float(np.mean(launch)) for launch in arm]))


def launch_effect(
    a: Launches, b: Launches, *, restart: Allowance = RESTART, trial: Allowance = TRIAL
) -> Effect:
    """Difference b - a of a log metric for *this workload*: the prompts are held fixed.

    Welch's comparison over launches with moderated variances; Satterthwaite degrees of freedom.
    """
    within = within_launches([a, b])
    parts = [arm_variance(arm, within, restart, trial) for arm in (a, b)]
    return effect_of(arm_mean(b) - arm_mean(a), parts)
