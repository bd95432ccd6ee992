"""How long a load will still take, learned from earlier loads of the same host and model."""

from collections.abc import Mapping

from specbench.model.service import LoadProgress, Phase


class LoadClock:
    """Time per phase of one load, and the estimate of what is left.

    `history` maps a phase to the seconds it took before; without it no estimate is made, because
    the fraction of one phase says nothing about the next. Times come from the caller's clock.
    """

    def __init__(self, started_s: float, history: Mapping[str, float] | None = None) -> None:
        self._started_s = started_s
        self._history = dict(history or {})
        self._phase: Phase = "starting"
        self._entered_s = started_s
        self._spent: dict[str, float] = {}

    @property
    def phase(self) -> Phase:
        """The phase the load is in."""
        return self._phase

    def times(self, now_s: float) -> dict[str, float]:
        """Seconds spent in each phase so far."""
        spent = dict(self._spent)
        spent[self._phase] = spent.get(self._phase, 0.0) + now_s - self._entered_s
        return spent

    def progress(
        self, now_s: float, phase: Phase, *, fraction: float | None = None, detail: str = ""
    ) -> LoadProgress:
        """Enter (or stay in) a phase and describe the load."""
        if phase != self._phase:
            self._spent = self.times(now_s)
            self._phase, self._entered_s = phase, now_s
        return LoadProgress(
            phase=phase,
            fraction=fraction,
            detail=detail,
            elapsed_s=now_s - self._started_s,
            eta_s=self._left_s(now_s, fraction),
        )

    def _left_s(self, now_s: float, fraction: float | None) -> float | None:
        if not self._history:
            return None
        spent = self.times(now_s)
        here = spent[self._phase]
        expected = self._history.get(self._phase, 0.0)
        if fraction:
            expected = here / fraction
        later = sum(s for phase, s in self._history.items() if phase not in spent)
        return max(0.0, expected - here) + later
