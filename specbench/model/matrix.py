"""The matrix as decoded from YAML: factors, algorithms as data, workload, replicates."""

from typing import Literal

import msgspec

Level = str | int | float | bool | None
Scope = Literal["launch", "load", "request"]

LOAD_FACTORS = frozenset({"concurrency", "rate"})
REQUEST_FACTORS = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "max_tokens", "dataset", "ignore_eos", "api"}
)


class Algorithm(msgspec.Struct, frozen=True, kw_only=True):
    """How one value of the factor `algorithm` becomes server flags: data, not code.

    `flags` maps a flag name without dashes to a template ("{budget}"), True (a bare flag) or a
    constant; `factors` names the launch factors that apply to this algorithm (all others in
    `algorithm_factors` collapse to None); `since`/`until` are server versions; `versions` overrides
    the flags for a range of server versions (">=0.5.18" -> flags).
    """

    flags: dict[str, Level] = {}
    env: dict[str, str] = {}
    factors: tuple[str, ...] = ()
    speculative: bool = True
    since: str | None = None
    until: str | None = None
    versions: dict[str, dict[str, Level]] = {}


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    """The model under test: a path on the hosts and the name it is served under."""

    path: str
    served_name: str


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Flags and environment common to all arms; `command` replaces the launch command's head."""

    flags: dict[str, Level] = {}
    env: dict[str, str] = {}
    command: tuple[str, ...] = ()


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the server in each trial. `requests` counts measured requests."""

    dataset: str = "builtin:mixed"
    requests: int = 200
    max_tokens: int = 512
    ignore_eos: bool = False
    warmup: int | Literal["auto"] = "auto"
    window: Literal["steady", "run"] = "steady"
    api: Literal["generate", "chat", "completions"] = "chat"
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    request_timeout_s: float = 600.0
    stagger: bool = True
    seed: int = 0


class Replicates(msgspec.Struct, frozen=True, kw_only=True):
    """Trials are nested in launches: `launches` restarts of each server, `trials` in each."""

    launches: int = 1
    trials: int = 1


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One combination of levels, after collapse; `cell_id` is the content hash of its definition.

    `levels` holds every factor of the matrix (None where it does not apply); `invalid` is the
    reason why no server can run it, or None.
    """

    cell_id: str
    levels: dict[str, Level]
    invalid: str | None = None

    @property
    def algorithm(self) -> str:
        """The arm that this cell belongs to."""
        return str(self.levels["algorithm"])


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded matrix file. `source` is its text, `path` where it was read from."""

    name: str
    model: ModelRef
    hosts: tuple[str, ...]
    factors: dict[str, tuple[Level, ...]]
    include: tuple[dict[str, Level], ...] = ()
    exclude: tuple[str, ...] = ()
    when: dict[str, str] = {}
    algorithms: dict[str, Algorithm] = {}
    server: ServerOptions = ServerOptions()
    workload: WorkloadOptions = WorkloadOptions()
    control: str = "ar"
    replicates: Replicates = Replicates()
    files: tuple[str, ...] = ()
    seed: int = 0
    source: str = ""
    path: str = ""
