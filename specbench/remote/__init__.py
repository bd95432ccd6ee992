"""Shells: run and follow commands here or over SSH; the only place that knows paramiko."""
