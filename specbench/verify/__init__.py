"""The losslessness battery against a running server."""
