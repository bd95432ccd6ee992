"""Summaries, the confound guard, comparison and losslessness evidence; no I/O."""
