"""JSON Schemas of matrix.yaml and hosts.yaml, for editors; made from the types that decode them."""

from typing import Any

import msgspec

from specbench.backends.products import BACKENDS
from specbench.config.algorithms import builtin, common_factors
from specbench.config.datasets import MIXED, builtin_categories
from specbench.config.hosts_file import HostsFile
from specbench.config.levels import FACTOR_TYPES
from specbench.config.shapes import MatrixFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def matrix_schema() -> dict[str, Any]:
    """Return the JSON Schema of a matrix file, with the factors that ship and their types."""
    schema = _schema(MatrixFile, "specbench matrix")
    definition = schema["$defs"]["MatrixFile"]
    definition["patternProperties"] = {"^x-": True}
    factors = definition["properties"]["factors"]
    factors["required"] = ["algorithm"]
    factors["properties"] = _factor_properties()
    datasets = [f"builtin:{name}" for name in (MIXED, *builtin_categories())]
    schema["$defs"]["WorkloadOptions"]["properties"]["dataset"]["examples"] = datasets
    definition["properties"]["control"]["examples"] = sorted(builtin().algorithms)
    schema["$defs"]["ServerOptions"]["properties"]["engine"]["enum"] = ["", *BACKENDS]
    return schema


def hosts_schema() -> dict[str, Any]:
    """Return the JSON Schema of a hosts file."""
    schema = _schema(HostsFile, "specbench hosts")
    del schema["$defs"]["HostsFile"]["properties"]["defaults"]["default"]
    return schema


def _schema(kind: type[msgspec.Struct], title: str) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if definition.get("type") == "object" and "properties" in definition:
            definition["additionalProperties"] = False
            for name, entry in definition["properties"].items():
                if name == "env":
                    entry["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))  # no tuples
    return {"$schema": DIALECT, "title": title, **plain}


def _factor_properties() -> dict[str, Any]:
    described: dict[str, dict[str, Any]] = {
        name: {"description": factor.description or f"the server flag --{name.replace('_', '-')}"}
        for name, factor in common_factors({}).items()
    }
    for name, kind in FACTOR_TYPES.items():
        level = msgspec.json.schema(kind)
        described[name] = {"anyOf": [level, {"type": "array", "items": level, "minItems": 1}]}
    names = sorted(builtin().algorithms)
    described["algorithm"]["examples"] = [names]
    return dict(sorted(described.items()))
