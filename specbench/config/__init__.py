"""YAML to the nouns: errors with file:line:column, JSON Schema for editors, datasets."""

from specbench.config.algorithms import builtin as builtin_algorithms
from specbench.config.datasets import (
    PromptSet,
    choose_prompts,
    load_dataset,
    read_datasets,
    shuffle_prompts,
)
from specbench.config.files import hash_files, pin_files, read_entry, split_entry
from specbench.config.hosts_file import parse_hosts, read_hosts
from specbench.config.matrix_file import parse_matrix, read_matrix
from specbench.config.model_file import read_model
from specbench.config.schema import hosts_schema, matrix_schema

__all__ = [
    "PromptSet",
    "builtin_algorithms",
    "choose_prompts",
    "hash_files",
    "hosts_schema",
    "load_dataset",
    "matrix_schema",
    "parse_hosts",
    "parse_matrix",
    "pin_files",
    "read_datasets",
    "read_entry",
    "read_hosts",
    "read_matrix",
    "read_model",
    "shuffle_prompts",
    "split_entry",
]
