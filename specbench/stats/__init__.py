"""Intervals, tests and sequential rules on plain arrays; numpy and scipy only."""
