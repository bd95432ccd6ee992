"""What was recorded of each trial beside its row: a comparison guards it like a column."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def with_facts(trials: pd.DataFrame, facts: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Add columns `group.name` for the facts of each trial: workload, sampling, client."""
    rows = [
        {
            f"{group}.{name}": fact
            for group, named in facts.get(str(trial), {}).items()
            for name, fact in named.items()
        }
        for trial in trials["trial_id"]
    ]
    return pd.concat([trials, pd.DataFrame(rows, index=trials.index)], axis=1)
