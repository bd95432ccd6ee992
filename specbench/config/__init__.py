"""YAML to model: matrices, hosts and datasets, with errors that carry file:line:column."""
