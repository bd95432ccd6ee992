"""Drives load against a server and measures what comes back, and how well it was measured."""

from specbench.loadgen.drive import drive

__all__ = ["drive"]
