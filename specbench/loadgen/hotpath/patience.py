"""How long a request is waited for, and a server on which nothing comes at all."""

from collections.abc import Sequence

from specbench.loadgen.hotpath.exchange import Exchange
from specbench.model.load import LoadSpec, Reason

_SECOND = 1e9


class Patience:
    """Decides what has taken too long; `silent_ns` is for how long nothing came of any request."""

    def __init__(self, load: LoadSpec) -> None:
        self.silent_ns = 0
        self._timeout_ns = int(load.request_timeout_s * _SECOND)
        self._stalled_ns = int((load.stall_timeout_s or load.request_timeout_s) * _SECOND)
        self._silence_ns = int(load.silence_timeout_s * _SECOND)
        self._connect_ns = int(load.connect_timeout_s * _SECOND)
        self._heard_ns = 0

    def ends_opening(self, opened_ns: int, now: int) -> bool:
        """Whether a connection has been opening for too long."""
        return now - opened_ns > self._connect_ns

    def ends(self, exchange: Exchange, now: int) -> tuple[Reason, str] | None:
        """Say why a request that was sent is waited for no longer; None while it is."""
        silent = now - (exchange.heard_ns or now)
        waited = now - (exchange.intended_ns or exchange.started_ns)
        late = waited > self._timeout_ns
        if not exchange.answered:
            return ("no_first_byte", f"nothing for {waited / _SECOND:.1f} s") if late else None
        if silent > self._stalled_ns or (late and silent > self._timeout_ns // 2):
            return "stalled", f"silent for {silent / _SECOND:.1f} s"
        return ("timeout", f"not done after {waited / _SECOND:.1f} s") if late else None

    def hear(self, now: int) -> None:
        """Note that a reply came to its end."""
        self._heard_ns = now

    def gives_up(self, running: Sequence[Exchange], now: int) -> str:
        """Say why a load is ended on which nothing comes any more; empty while it goes on."""
        heard = (each.heard_ns or 0 for each in running)
        self._heard_ns = max(self._heard_ns, *heard, 0)
        begun = min((each.started_ns for each in running), default=now)
        self.silent_ns = max(0, now - max(self._heard_ns, begun))
        if self.silent_ns < self._silence_ns:
            return ""
        return f"nothing came from the server for {self.silent_ns / _SECOND:.0f} s"
