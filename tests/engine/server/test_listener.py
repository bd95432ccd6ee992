"""The listener of the server: each event leaves when it is written, not when the last was heard."""

import socket

import pytest

from specbench.engine.server.faults import ServerFaults
from specbench.engine.server.startup import bind


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_every_accepted_connection_sends_without_waiting_for_acknowledgements(host: str) -> None:
    listener = bind({"host": host, "port": 0}, ServerFaults())
    assert listener is not None
    with listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]):
            accepted, _ = listener.accept()
            with accepted:
                option = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert option != 0
    assert listener.proto == socket.IPPROTO_TCP
