"""One file a format that a recording is written in."""

from typing import Literal, get_args

Format = Literal[
    "csv",
    "jsonl",
    "parquet",
    "sglang",
    "aiperf",
    "llm-d",
    "speculation-profile",
    "prometheus",
    "junit",
    "comment",
]
FORMATS: tuple[str, ...] = get_args(Format)
