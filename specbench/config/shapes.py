"""The shapes of matrix.yaml and hosts.yaml: one source for decoding and for the JSON Schemas."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from specbench.model.matrix import (
    Algorithm,
    CommonFactor,
    Level,
    ModelRef,
    Name,
    Replicates,
    Seed,
    ServerOptions,
    WorkloadOptions,
)

Expression = Annotated[str, Meta(min_length=1, max_length=4096)]
Depth = Literal["quick", "default", "deep"]


class MatrixFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A matrix: factors and their levels, what is asked of each server, on which hosts."""

    name: Annotated[Name, Meta(description="Names the recording.")]
    model: ModelRef
    factors: Annotated[
        dict[str, Level | list[Level]],
        Meta(description="Every key is a factor; a list has its levels, a scalar is one level."),
    ]
    hosts: Annotated[
        str | list[str], Meta(description="Names in hosts.yaml; local needs no entry.")
    ] = "local"
    include: Annotated[
        list[str | dict[str, Level | list[Level]]],
        Meta(description="A mapping adds cells; of the expressions at least one must hold."),
    ] = []
    exclude: Annotated[
        list[Expression], Meta(description="A cell for which an expression holds is left out.")
    ] = []
    when: Annotated[
        dict[str, Expression],
        Meta(description="factor: expression; elsewhere the factor does not apply (none)."),
    ] = {}
    algorithms: Annotated[
        dict[str, Algorithm],
        Meta(description="Changes of the algorithms that ship, and further ones."),
    ] = {}
    common: Annotated[
        dict[str, CommonFactor],
        Meta(description="Changes of how tp, cuda_graph, ... become flags."),
    ] = {}
    server: ServerOptions = ServerOptions()
    workload: WorkloadOptions = WorkloadOptions()
    control: Annotated[str, Meta(description="The arm that every other is compared with.")] = "ar"
    replicates: Replicates = Replicates()
    verify: Annotated[
        bool | Depth, Meta(description="Plan losslessness verdicts; true means default.")
    ] = False
    spread: Annotated[
        Literal["groups", "every"],
        Meta(description="Several hosts: share comparisons out, or measure everything on each."),
    ] = "groups"
    files: Annotated[
        list[str],
        Meta(
            description="Put on the host before a launch: files as FROM:TO, packages as a path of a"
            " wheel or git+URL@REVISION."
        ),
    ] = []
    seed: Seed = 0


class AlgorithmsFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The table of algorithms that ships with the package."""

    algorithms: dict[str, Algorithm]
    common: dict[str, CommonFactor]
    server_flags: list[str]
