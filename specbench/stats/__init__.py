"""Intervals, tests and corrections on plain numbers and arrays; numpy and scipy only."""
