"""Undo on a host what a specbench that was killed has left there."""

from collections.abc import Iterator

from specbench.errors import HostError, InputError
from specbench.hosts import deploy
from specbench.hosts.checks import HostCheck, wrong
from specbench.hosts.lock import HostLock
from specbench.launchers.launcher import starter_for
from specbench.model.host import LAUNCHER_TRAITS, Host
from specbench.remote.shell import Shell


def restore_everything(host: Host, shell: Shell, *, break_lock: bool) -> Iterator[HostCheck]:
    """Stop the server, take back the files, give back the lock; say what was done.

    The lock is removed where its holder is provably gone, or where that is asked for. Another
    specbench that is alive is left alone.
    """
    lock = HostLock(shell)
    holder = lock.holder()
    if holder is not None and not (holder.is_dead or holder.is_this_process or break_lock):
        yield HostCheck(
            name="lock",
            state="wrong",
            found=f"{holder.user}@{holder.machine} has it for {holder.age}: {holder.purpose}",
            hint="nothing was touched; if that run is dead: specbench hosts restore --break-lock",
        )
        return
    done: list[str] = []
    try:
        if LAUNCHER_TRAITS[host.launcher].starts:
            done.extend(starter_for(host, shell).restore())
        done.extend(deploy.restore(shell))
    except (HostError, InputError) as error:
        yield wrong("restore", error)
        return
    if lock.exists() and (holder is not None or break_lock):
        lock.break_lock()
        done.append("removed the lock" + (f" of {holder.user}@{holder.machine}" if holder else ""))
    for text in done:
        yield HostCheck(name="restore", state="ok", found=text)
    if not done:
        yield HostCheck(name="restore", state="ok", found="nothing was left behind")
