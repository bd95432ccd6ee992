"""What a sealed trial holds, and the manifest: the file formats, with their version."""

from typing import Any, Literal

import msgspec

from specbench.model.load import DriveReport
from specbench.model.plan import Trial

SCHEMA = 1
"""Version of every file in a recording. A reader refuses newer ones and upgrades older ones."""


class SealedTrial(msgspec.Struct, kw_only=True):
    """One finished trial (`trials/<trial_id>/trial.json`).

    `trial.definition` is what it was measured under: a later plan with another one finds it stale.
    `server` holds the launch fingerprint and what the server said of itself. `row` holds the
    summary columns as computed by definitions of version `row_version`; it is computed again from
    the requests when the definitions have moved on.
    """

    schema: int = SCHEMA
    trial: Trial
    status: Literal["ok", "failed"]
    reason: str = ""
    started_at: str
    ended_at: str
    duration_s: float | None = None
    report: DriveReport | None = None
    sampling: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    client: dict[str, Any] = {}
    server: dict[str, Any] = {}
    flags: tuple[str, ...] = ()
    row: dict[str, Any] = {}
    row_version: int = 0
    requests_sha256: str = ""


class Manifest(msgspec.Struct, kw_only=True):
    """`manifest.json`: what was asked, by whom, with what. Written once, when a run starts.

    Later runs in the same recording append their matrix to the journal instead. `host_facts` is the
    exception: it gets what each host said of itself at its latest launch.
    """

    schema: int = SCHEMA
    name: str
    specbench: str = ""
    created_at: str = ""
    matrix_path: str = ""
    matrix: str = ""
    hosts: dict[str, Any] = {}
    host_facts: dict[str, Any] = {}
    seeds: dict[str, int] = {}
    client: dict[str, Any] = {}
    dataset: dict[str, str] = {}
    files: dict[str, str] = {}
