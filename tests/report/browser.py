"""A headless Chromium driven over its debugging pipe: no port, no extra package."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def chromium() -> str | None:
    """Path of the browser, or None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. `console` and `requests` collect what it said and what it asked for."""

    def __init__(self, profile: Path, *, scripts: bool = True, width: int = 1280) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        shell = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, str(chromium()), *FLAGS, f"--user-data-dir={profile}",
             f"--window-size={width},900", "about:blank"],
            pass_fds=(to_child, from_child), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._buffer = b""
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self._call(f"{domain}.enable")
        if not scripts:
            self._call("Emulation.setScriptExecutionDisabled", value=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._read)

    def open(self, path: Path) -> None:
        """Load a file and wait for its load event."""
        self._call("Page.navigate", url=path.resolve().as_uri())
        self._wait("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Value of a script expression in the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def dark(self) -> None:
        """Prefer dark colours from now on."""
        feature = {"name": "prefers-color-scheme", "value": "dark"}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path) -> None:
        """Write a picture of the window."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _wait(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            content = os.read(self._read, 65536)
            assert content, "the browser ended"
            self._buffer += content
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.console.append(json.dumps(params))
            case _:
                pass
