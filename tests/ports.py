"""Ports for servers of tests."""

import socket


def free_port() -> int:
    """Name a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
