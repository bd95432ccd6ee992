"""Why a unit was never seen to run, by what systemd and the server's last lines say."""

from collections.abc import Sequence

from specbench.backends.products import backend_for
from specbench.errors import LoadFailed
from specbench.launchers.systemd.systemctl import UnitState

NOT_EXECUTED = range(200, 244)
"""Exit statuses that systemd itself gives before the program runs (systemd.exec)."""

_HINTS = {
    200: "the working folder cannot be entered: correct workdir in hosts.yaml",
    203: "the command was not found: ExecStart wants an absolute path, so python in hosts.yaml "
    "should be one",
}


def not_started(
    unit: str, state: UnitState, lines: Sequence[str], *, engine: str, where: str
) -> LoadFailed:
    """Make the error of a start: a program that ran and ended at once is told by its own lines."""
    status = state.exit_status
    ended_itself = state["ExecMainCode"] in {"1", "2", "3"} and status not in NOT_EXECUTED
    told = backend_for(engine).diagnose(lines, exit_status=status) if ended_itself else None
    if told is not None:
        return LoadFailed(
            told.cause,
            where=where,
            hint=told.hint,
            log_tail=lines[-30:],
            pattern=told.pattern,
            evidence=told.evidence,
        )
    return LoadFailed(
        f"systemd could not start {unit}: {state['ActiveState']}, Result={state['Result']}, "
        f"exit status {status}",
        where=where,
        hint=_HINTS.get(status, f"systemctl status {unit} on the host tells more"),
        log_tail=lines[-30:],
        pattern="cannot_start",
        evidence=lines[-12:],
    )
