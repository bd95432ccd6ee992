"""A machine before and beside its server: checks, GPUs, telemetry, files, the lock."""
