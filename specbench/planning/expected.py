"""How long a plan takes, learned from earlier recordings of the same host and model."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import msgspec

from specbench.model.plan import Block, History, Trial, TrialReason


@dataclass
class Expected:
    """Medians of earlier durations, from the most alike to the least."""

    loads: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    trials: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    a_request: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    @classmethod
    def from_history(cls, history: History) -> "Expected":
        """Sort durations by what they were of."""
        expected = cls()
        for load in history.launches:
            server = (load.host, load.model)
            expected.loads.setdefault(server, []).append(load.load_s)
            expected.loads.setdefault((*server, load.algorithm), []).append(load.load_s)
        for trial in history.trials:
            alike = (trial.host, trial.model, trial.kind)
            expected.trials.setdefault(alike, []).append(trial.seconds)
            expected.trials.setdefault((*alike, trial.cell_id), []).append(trial.seconds)
            if trial.requests:
                each = trial.seconds / trial.requests
                for like in (trial.cell_id, trial.load):
                    expected.a_request.setdefault((*alike, like), []).append(each)
        return expected

    def load_s(self, block: Block) -> float | None:
        """Seconds until the server is ready, or None where nothing tells."""
        key = (block.host, block.spec.model_path)
        found = self.loads.get((*key, block.spec.algorithm)) or self.loads.get(key)
        return median(found) if found else None

    def trial_s(self, trial: Trial, model: str) -> float | None:
        """Seconds of a trial, or None where nothing tells.

        They go by its requests: of the same cell, else of the same load.
        """
        key = (trial.host, model, trial.kind)
        size = trial.asked.requests if trial.asked else None
        for like in (trial.cell.cell_id, load_of(trial)):
            if size and (each := self.a_request.get((*key, like))):
                return size * median(each)
        found = self.trials.get((*key, trial.cell.cell_id)) or self.trials.get(key)
        return median(found) if found else None

    def block_s(self, block: Block) -> float | None:
        """Seconds of a whole block, or None where a part of it is unknown."""
        parts = [self.load_s(block)]
        parts += [self.trial_s(trial, block.spec.model_path) for trial in block.trials]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def load_of(trial: Trial) -> str:
    """Name the load of a trial: trials of equal load and size last about as long."""
    levels = trial.cell.levels
    return f"{levels.get('concurrency')} {levels.get('rate')}"


def timed_blocks(blocks: Iterable[Block], expected: Expected) -> list[Block]:
    """Put the expected seconds into the blocks."""
    return [msgspec.structs.replace(b, expected_s=expected.block_s(b)) for b in blocks]


def plan_s(blocks: Iterable[Block]) -> float | None:
    """Seconds of all blocks, hosts in parallel; None where a part is unknown."""
    by_host: dict[str, float] = {}
    for block in blocks:
        if block.expected_s is None:
            return None
        by_host[block.host] = by_host.get(block.host, 0.0) + block.expected_s
    return max(by_host.values(), default=0.0)


def timed_reasons(
    reasons: list[TrialReason], blocks: Iterable[Block], expected: Expected
) -> list[TrialReason]:
    """Put the expected seconds beside the reasons of the trials that will run."""
    seconds = {
        trial.trial_id: expected.trial_s(trial, block.spec.model_path)
        for block in blocks
        for trial in block.trials
    }
    return [
        msgspec.structs.replace(reason, expected_s=seconds[reason.trial_id])
        if seconds.get(reason.trial_id) is not None
        else reason
        for reason in reasons
    ]
