"""The matrix as decoded from YAML: factors, algorithms as data, workload, replicates."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from specbench.model.load import Api, Count, SamplingOptions

Level = str | int | float | bool | None
Scope = Literal["launch", "load", "request"]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")]
Rate = Annotated[float, Meta(gt=0.0, le=1e6)]
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")
Seed = Annotated[int, Meta(ge=0, le=2**53)]

LOAD_FACTORS = frozenset({"concurrency", "rate"})


def is_variable(factor: str) -> bool:
    """Whether a factor of this name is a variable of the server's environment."""
    return _VARIABLE.fullmatch(factor) is not None


class Algorithm(msgspec.Struct, frozen=True, kw_only=True):
    """How one value of the factor `algorithm` becomes server flags: data, not code.

    `flags` maps a flag name without dashes to a template ("{budget + 1}"), True (a bare flag) or a
    constant; None takes the flag away. `factors` names further launch factors that apply beside
    those that the templates name. `since` and `until` are the first and the last server version
    that has it; `versions` overrides flags for server versions (">=0.5.18" -> flags). `extends`
    names the algorithm whose entries this one changes; one of the same name is meant by default.
    `forces` names server arguments that the server itself resolves differently under the algorithm:
    where arms differ in it, a comparison lists such a difference instead of refusing.
    """

    description: str = ""
    extends: str | None = None

    flags: dict[str, Level] = {}
    env: dict[str, str] = {}
    factors: tuple[str, ...] = ()
    speculative: bool = True
    since: str | None = None
    until: str | None = None
    versions: dict[str, dict[str, Level]] = {}
    forces: tuple[str, ...] = ()


class ModelRef(msgspec.Struct, frozen=True, kw_only=True):
    """The model under test: a path on the hosts and the name it is served under."""

    path: Annotated[str, Meta(min_length=1)]
    served_name: Annotated[str, Meta(min_length=1, pattern="^[^:]+$")]


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Flags and environment common to all arms; `command` replaces the launch command's head.

    `engine` names the server product: its flags, its rules and its HTTP surface; "" is the default.
    """

    engine: str = ""
    flags: dict[str, Level] = {}
    env: dict[str, str] = {}
    command: tuple[str, ...] = ()


class RequestOptions(SamplingOptions, frozen=True, kw_only=True):
    """What each request of a trial asks for: its fields are the request factors."""

    dataset: Annotated[str, Meta(min_length=1)] = "builtin:mixed"
    api: Api = "chat"


class WorkloadOptions(RequestOptions, frozen=True, kw_only=True):
    """What is asked of the server in each trial. `requests` counts measured requests.

    A factor of the same name takes the place of an entry. `warmup` counts requests before the
    measured ones. `seed` orders the prompts.
    """

    requests: Count = 200
    warmup: Annotated[int, Meta(ge=0, le=10**6)] | Literal["auto"] = "auto"
    window: Literal["steady", "run"] = "steady"
    request_timeout_s: Annotated[float, Meta(gt=0.0, le=86400.0)] = 600.0
    stagger: bool = True
    seed: Seed = 0


REQUEST_FACTORS = frozenset(RequestOptions.__struct_fields__)


class Replicates(msgspec.Struct, frozen=True, kw_only=True):
    """Trials are nested in launches: `launches` restarts of each server, `trials` in each."""

    launches: Annotated[int, Meta(ge=1, le=1000)] = 1
    trials: Annotated[int, Meta(ge=1, le=1000)] = 1


class CommonFactor(msgspec.Struct, frozen=True, kw_only=True):
    """How a launch factor that concerns every algorithm becomes flags (`tp`, `cuda_graph`, ...)."""

    description: str = ""
    flags: dict[str, Level] = {}
    versions: dict[str, dict[str, Level]] = {}


class Cell(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One combination of levels, after collapse; `cell_id` is the content hash of its definition.

    `levels` holds every factor of the matrix (None where it does not apply); `invalid` is the
    reason why no server can run it, or None. `origin` tells a cell of the product from one of
    `include`, and from a control that was added because an arm had none. `launch` is the
    fingerprint of the server that the cell needs; `definition` maps each part of the cell's
    definition to its hash, so that a change can be named.
    """

    cell_id: str
    levels: dict[str, Level]
    invalid: str | None = None
    origin: Literal["matrix", "include", "control"] = "matrix"
    launch: str = ""
    definition: dict[str, str] = {}

    @property
    def algorithm(self) -> str:
        """The arm that this cell belongs to."""
        return str(self.levels["algorithm"])


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded matrix file. `source` is its text, `path` where it was read from.

    `include` holds cells to add (factor -> levels; factors left out take all of theirs), `keep`
    the expressions of `include` of which one must hold. `algorithms` and `common` are complete:
    the ones that ship, changed by the file's. `places` maps an entry ("factors.budget") to
    file:line:column. `spread` says what several hosts are for: "groups" shares whole comparisons
    out among them, "every" measures everything on each. `verify` plans losslessness verdicts at
    that depth. `file_hashes` maps the target of each of `files` to the sha256 of its content, where
    somebody has looked: planning reads no files.
    """

    name: str
    model: ModelRef
    hosts: tuple[str, ...]
    factors: dict[str, tuple[Level, ...]]
    include: tuple[dict[str, tuple[Level, ...]], ...] = ()
    keep: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    when: dict[str, str] = {}
    algorithms: dict[str, Algorithm] = {}
    common: dict[str, CommonFactor] = {}
    server: ServerOptions = ServerOptions()
    workload: WorkloadOptions = WorkloadOptions()
    control: str = "ar"
    replicates: Replicates = Replicates()
    verify: Literal["quick", "default", "deep"] | None = None
    spread: Literal["groups", "every"] = "groups"
    files: tuple[str, ...] = ()
    file_hashes: dict[str, str] = {}
    seed: int = 0
    source: str = ""
    path: str = ""
    places: dict[str, str] = {}
