"""Use cases - run, verify, isolate, compare, report - and the one composition root."""
