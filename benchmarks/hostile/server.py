"""Serves one of the hostile servers: python -m hostile.server NAME, which prints its port."""

import contextlib
import json
import socket
import struct
import sys
import threading
import time

from hostile.servers import Server, every
from hostile.wire import Answer, Forever, Json, Pause, document, finish, stream, usage, words

LINGER_NOT = struct.pack("ii", 1, 0)
HANG_S = 3600.0


def main() -> None:
    """Listen on a free port of the loopback until killed."""
    named = next(one for one in every() if one.name == sys.argv[1])
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(named, connection), daemon=True).start()


def _serve(server: Server, connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError, ValueError), connection:
        while (request := _read(connection)) is not None:
            method, path, body = request
            table = server.get if method == "GET" else server.post
            answer = table.get(path) or table.get("*") or _good(server, method, path, body)
            if not _act(connection, answer):
                return


def _read(connection: socket.socket) -> tuple[str, str, dict[str, Json]] | None:
    """Read one request; None at the end."""
    came = b""
    while b"\r\n\r\n" not in came:
        piece = connection.recv(65536)
        if not piece:
            return None
        came += piece
    told, _, body = came.partition(b"\r\n\r\n")
    first, *headers = told.decode("latin-1").split("\r\n")
    pairs = (line.partition(":")[::2] for line in headers)
    length = next((int(value) for name, value in pairs if name.lower() == "content-length"), 0)
    while len(body) < length:
        body += connection.recv(65536)
    method, target, *_ = first.split()
    asked = json.loads(body) if body else {}
    return method, target.partition("?")[0], asked if isinstance(asked, dict) else {}


def _act(connection: socket.socket, answer: Answer) -> bool:
    """Do what the answer says; whether the connection is kept."""
    for act in answer:
        match act:
            case bytes():
                connection.sendall(act)
            case Pause(seconds):
                time.sleep(seconds)
            case Forever(piece, pause_s):
                while True:
                    connection.sendall(piece)
                    time.sleep(pause_s)
            case "hang":
                connection.settimeout(HANG_S)
                connection.recv(1)
                return False
            case "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                return False
            case "close":
                return False
    return True


def _good(server: Server, method: str, path: str, body: dict[str, Json]) -> Answer:
    """Answer as a well-behaved server does, of the product that it claims to be."""
    if path in ("/v1/chat/completions", "/v1/completions"):
        return _completion(body, chat="chat" in path)
    if path == "/generate" and server.owner == "sglang":
        return _generated(body)
    if path == "/v1/models":
        model = {"id": "m", "object": "model", "owned_by": server.owner}
        return (document({"object": "list", "data": [model]}),)
    if path == "/health" or (method, path) in PLAIN.get(server.owner, {}):
        return (document(PLAIN.get(server.owner, {}).get((method, path), {})),)
    return (document({"detail": "Not Found"}, "404 Not Found"),)


SELF = {"model_path": "m", "served_model_name": "m", "version": "0.5.9"}
PLAIN: dict[str, dict[tuple[str, str], Json]] = {
    "sglang": {
        ("GET", "/model_info"): SELF,
        ("GET", "/server_info"): SELF,
        ("POST", "/flush_cache"): {},
        ("POST", "/abort_request"): {},
    },
    "vllm": {("GET", "/version"): {"version": "0.32.0"}},
    "llamacpp": {("GET", "/props"): {"build_info": "b1"}},
}


def _generated(body: dict[str, Json]) -> Answer:
    counted = {"finish_reason": {"type": "length"}, "prompt_tokens": 9, "completion_tokens": 8}
    reply = {"text": "w " * 8, "output_ids": list(range(8)), "meta_info": counted}
    return stream(reply) if body.get("stream") else (document(reply),)


def _completion(body: dict[str, Json], *, chat: bool) -> Answer:
    if body.get("stream"):
        return stream(*words(), finish(), usage())
    said = {"message": {"content": "w " * 8}} if chat else {"text": "w " * 8}
    counted = {"prompt_tokens": 9, "completion_tokens": 8}
    return (
        document({"choices": [{"index": 0, "finish_reason": "length", **said}], "usage": counted}),
    )


if __name__ == "__main__":
    main()
