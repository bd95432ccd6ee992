"""`speculation_profile.json` 1.0: the acceptance length by budget, for simulators."""

from typing import Any

from specbench.interchange.exports.trials import ExportedTrial

BUDGETS = ("budget", "num_draft_tokens", "draft_tokens", "steps")


def profiles(trials: list[ExportedTrial]) -> dict[str, dict[str, Any]]:
    """Give a profile an algorithm that has steps counted; lengths include the bonus token.

    `accept_length_by_k` is there where one factor gives the budget. Settings other than it that
    took several levels are pooled, and `measurement_conditions` lists their levels.
    """
    found = {}
    for name in dict.fromkeys(str(trial.levels.get("algorithm", "")) for trial in trials):
        chosen = [
            trial
            for trial in trials
            if str(trial.levels.get("algorithm", "")) == name
            and {"accept_len", "verify_steps"} <= trial.row.keys()
        ]
        if name not in ("", "ar", "none") and chosen:
            found[name] = _profile(name, chosen)
    return found


def _profile(name: str, trials: list[ExportedTrial]) -> dict[str, Any]:
    factor = next((one for one in BUDGETS if all(one in t.levels for t in trials)), None)
    budgets = sorted({trial.levels[factor] for trial in trials}) if factor else []
    largest = [t for t in trials if factor is None or t.levels[factor] == budgets[-1]]
    by_k = {str(k): _pooled([t for t in trials if t.levels[str(factor)] == k]) for k in budgets}
    return {
        "schema_version": "1.0",
        "measured": True,
        "method": name,
        "target_model": trials[0].model,
        "draft_checkpoint": None,
        "num_speculative_tokens": budgets[-1] if budgets else None,
        "max_supported_k": budgets[-1] if budgets else None,
        "mean_accept_length": _pooled(largest),
        "mean_accept_length_per_request": _request_mean(largest),
        "accept_length_model": "measured_per_k" if by_k else None,
        "accept_length_by_k": by_k,
        "measurement_conditions": {
            "producer": f"specbench {trials[0].version}",
            "recording": trials[0].recording,
            **_levels(trials, factor),
        },
    }


def _pooled(trials: list[ExportedTrial]) -> float:
    """Pool over verify steps."""
    steps = sum(trial.row["verify_steps"] for trial in trials)
    weighted = sum(trial.row["accept_len"] * trial.row["verify_steps"] for trial in trials)
    return float(weighted / steps)


def _request_mean(trials: list[ExportedTrial]) -> float | None:
    """Average over requests; None where a trial lacks it."""
    column = "accept_len_request_mean"
    if not all(column in trial.row for trial in trials):
        return None
    requests = sum(trial.row["n_requests"] - trial.row["n_failed"] for trial in trials)
    if requests == 0:
        return None
    weighted = sum(
        trial.row[column] * (trial.row["n_requests"] - trial.row["n_failed"]) for trial in trials
    )
    return float(weighted / requests)


def _levels(trials: list[ExportedTrial], budget: str | None) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for trial in trials for name in trial.levels)
    return {
        name: list(dict.fromkeys(t.levels[name] for t in trials if name in t.levels))
        for name in names
        if name not in ("algorithm", budget)
    }
