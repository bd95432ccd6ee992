"""specbench: the instrument of record for speculative decoding.

The public Python API; every name is resolved on first use, so that importing the package costs
nothing (`specbench --help` answers in a fraction of a second).
"""

__version__ = "0.1.0"
