"""What earlier recordings tell: durations for the plan, load phases for the ETA, versions."""

from collections.abc import Mapping
from pathlib import Path

from specbench.errors import RecordingError
from specbench.model.block_facts import BlockFacts
from specbench.model.plan import History, PastLaunch, PastTrial
from specbench.planning.expected import load_of
from specbench.recording import Recording, find_recordings

RECENT = 20
"""Recordings looked at: older ones say little about today's hosts, and reading takes time."""


class Past:
    """Earlier recordings of a results folder, read once."""

    def __init__(self, results: Path) -> None:
        self._recordings = list(_readable(find_recordings(results)[-RECENT:]))

    def durations(self) -> History:
        """Give how long launches and trials took, for the plan's expected time."""
        return History(
            launches=tuple(
                launch for recording in self._recordings for launch in _launches(recording)
            ),
            trials=tuple(trial for recording in self._recordings for trial in _trials(recording)),
        )

    def load_phases(self, host: str, model: str) -> Mapping[str, float] | None:
        """Give the seconds of each load phase, as last seen on this host with this model."""
        for recording in reversed(self._recordings):
            for facts in recording.blocks.values():
                if facts.host == host and _model(facts) == model and facts.phase_times:
                    return facts.phase_times
        return None

    def version(self, hosts: tuple[str, ...]) -> str | None:
        """Give the server version that all `hosts` had when last seen; None when they differ."""
        seen = {
            facts.host: facts.version
            for recording in self._recordings
            for facts in recording.blocks.values()
            if facts.host in hosts
        }
        versions = set(seen.values())
        return versions.pop() if len(versions) == 1 and set(seen) == set(hosts) else None


def _readable(roots: list[Path]) -> list[Recording]:
    """Open what can be opened: a damaged neighbour must not stop a new run."""
    recordings = []
    for root in roots:
        try:
            recordings.append(Recording(root, hashed=False))  # durations only
        except RecordingError:
            continue
    return recordings


def _model(facts: BlockFacts) -> str:
    return facts.spec.model_path if facts.spec else ""


def _launches(recording: Recording) -> list[PastLaunch]:
    return [
        PastLaunch(
            host=facts.host,
            model=_model(facts),
            algorithm=facts.spec.algorithm,
            load_s=facts.load_s,
        )
        for facts in recording.blocks.values()
        if facts.load_s is not None and facts.spec
    ]


def _trials(recording: Recording) -> list[PastTrial]:
    return [
        PastTrial(
            host=sealed.trial.host,
            model=str(sealed.server.get("model_path", "")),
            cell_id=sealed.trial.cell.cell_id,
            seconds=sealed.duration_s,
            kind=sealed.trial.kind,
            requests=sealed.row.get("n_requests"),
            load=load_of(sealed.trial),
        )
        for sealed in recording.sealed
        if sealed.duration_s is not None and sealed.status == "ok"
    ]
