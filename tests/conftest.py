"""Settings that every test shares."""

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Two shared cores: a deadline would measure the neighbours. Derandomised: the same run everywhere.
settings.register_profile(
    "ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")

# A shell's background job ignores Ctrl-C, and so would every program that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

STARTS_A_PROCESS = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
_started: list[str] | None = None


def _notice(event: str, _arguments: object) -> None:
    if _started is not None and event in STARTS_A_PROCESS:
        _started.append(event)


sys.addaudithook(_notice)


@pytest.fixture(autouse=True)
def _no_process_unless_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of `make unit` starts no process: one that does carries a mark that says so."""
    marks = ("process", "e2e", "ssh", "real")
    if any(request.node.get_closest_marker(name) for name in marks):
        yield
        return
    global _started  # noqa: PLW0603 - an audit hook cannot be taken back, only be told to be silent
    _started = []
    yield
    started, _started = _started, None
    if started:
        pytest.fail(f"starts a process ({started[0]}) without @pytest.mark.process")
