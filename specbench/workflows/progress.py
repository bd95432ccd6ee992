"""Where a run stands: counts, what each host does now, and how long it will still take."""

import time
from typing import Any

from specbench.model.event import (
    BlockFailed,
    BlockLoading,
    BlockReady,
    BlockStarted,
    HostFailed,
    RunEvent,
    ServiceKept,
    TrialFinished,
    TrialProgress,
    TrialStarted,
    VerdictGiven,
    VerifyProgress,
)
from specbench.model.plan import Plan, Trial

HEARTBEAT_S = 0.5


class Progress:
    """Folds events into one state: `specbench status` and the live line show it."""

    def __init__(self, plan: Plan) -> None:
        self.total = len(plan.trials)
        self.blocks = plan.launches
        self.blocks_begun = 0
        self.measured = 0
        self.failed = 0
        self.hosts_failed: list[str] = []
        self.verdicts: list[str] = []
        self.kept: dict[str, str] = {}
        self.running = True
        self._now: dict[str, dict[str, Any]] = {}
        self._expected = {
            reason.trial_id: reason.expected_s for reason in plan.reasons if reason.will_run
        }
        self._begun = time.monotonic()
        self._beat = 0.0

    def take(self, event: RunEvent) -> None:
        """Fold one event in."""
        match event:
            case BlockStarted(block=block):
                self.blocks_begun += 1
                self._now[block.host] = {"block_id": block.block_id, "doing": "launching"}
            case BlockLoading(block=block, progress=load):
                self._now[block.host] |= {
                    "doing": f"loading: {load.phase}",
                    "fraction": load.fraction,
                    "eta_s": load.eta_s,
                }
            case BlockReady(block=block):
                self._now[block.host] = {"block_id": block.block_id, "doing": "ready"}
            case BlockFailed(block=block, failure=failure):
                self._now[block.host]["doing"] = f"failed: {failure.cause}"
            case ServiceKept(host=host, url=url):
                self.kept[host] = url
            case TrialStarted(trial=trial):
                self._trial(trial, doing="warming up")
            case TrialProgress(trial=trial, progress=drive):
                rate = drive.output_tokens / drive.elapsed_s if drive.elapsed_s else None
                self._trial(
                    trial,
                    doing="measuring" if drive.phase == "measured" else "warming up",
                    finished=drive.finished,
                    failed=drive.failed,
                    tok_s=rate,
                    accept_len=drive.accept_len,
                )
            case TrialFinished(trial=trial, status=status):
                self._expected.pop(trial.trial_id, None)
                self.measured += status == "ok"
                self.failed += status != "ok"
            case VerifyProgress(trial=trial, stage=stage):
                self._trial(trial, doing=f"verifying: {stage}")
            case VerdictGiven(verdict=verdict):
                self.verdicts.append(verdict)
            case HostFailed(host=host):
                self.hosts_failed.append(host)
                self._now.pop(host, None)
            case _:
                pass

    def _trial(self, trial: Trial, **state: Any) -> None:
        self._now[trial.host] = {
            "block_id": trial.block_id,
            "trial_id": trial.trial_id,
            "levels": trial.cell.levels,
            **state,
        }

    def end(self) -> None:
        """Say that the run is over, whichever way."""
        self.running = False
        self._now.clear()

    @property
    def finished(self) -> int:
        """How many planned trials are behind us."""
        return self.measured + self.failed

    def eta_s(self) -> float | None:
        """Estimate the seconds left: learned durations, else the pace so far; None before that."""
        left = list(self._expected.values())
        known = [seconds for seconds in left if seconds is not None]
        if left and len(known) == len(left):
            return sum(known)
        if not self.finished:
            return None
        pace = (time.monotonic() - self._begun) / self.finished
        return pace * (self.total - self.finished)

    def due(self) -> dict[str, Any] | None:
        """Give the state when it is time for a heartbeat."""
        now = time.monotonic()
        if now - self._beat < HEARTBEAT_S:
            return None
        self._beat = now
        return self.state()

    def state(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "running": self.running,
            "trials": self.total,
            "measured": self.measured,
            "failed": self.failed,
            "blocks": self.blocks,
            "blocks_begun": self.blocks_begun,
            "hosts_failed": self.hosts_failed,
            "verdicts": self.verdicts,
            "eta_s": self.eta_s(),
            "hosts": self._now,
        }
