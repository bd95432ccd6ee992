"""Replies of the quickstart's own workload: lengths and verify steps by prompt, as recorded.

    python -m benchmarks.laws.replay RECORDING

writes `quickstart_draws.json` beside this file from a recording of `draws.yaml`: by temperature and
prompt the pairs (output tokens, verify steps) of every repeat.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).with_name("quickstart_draws.json")


@cache
def replies(*, greedy: bool) -> NDArray[np.float64]:
    """Give (prompts, repeats, 2) of output tokens and verify steps."""
    return np.array(json.loads(FILE.read_text())["greedy" if greedy else "drawn"], dtype=float)


def main() -> None:
    from specbench.workflows.recording_open import open_recording  # noqa: PLC0415 - slow to load

    recording = open_recording(Path(sys.argv[1]))
    rows = recording.requests.merge(recording.trials[["trial_id", "temperature"]], on="trial_id")
    rows = rows[(rows["phase"] == "measured") & (rows["status"] == "ok")]
    rows = rows[rows["spec_verify_ct"].notna()]
    found = {}
    for name, warm in (("greedy", False), ("drawn", True)):
        chosen = rows[(rows["temperature"] > 0) == warm].sort_values("trial_id")
        found[name] = [
            group[["output_tokens", "spec_verify_ct"]].astype(int).to_numpy().tolist()
            for _, group in chosen.groupby("prompt_id")
        ]
    found["greedy"] = [pairs[:1] for pairs in found["greedy"]]  # the six repeats are equal
    FILE.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
