"""Two people cannot measure on one host at once, and nobody's lock is broken in silence."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError
from specbench.hosts.lock import Holder, HostLock
from specbench.remote.shell import Shell

pytestmark = pytest.mark.process


@pytest.fixture
def path(folder: str) -> str:
    return f"{folder}/lock"


def written(path: str, **changes: object) -> Holder:
    holder = Holder(
        user="mo", machine="elsewhere", pid=1, started="1", purpose="ddtree sweep", token="t",
        since="2026-01-01T00:00:00Z", since_unix_s=time.time() - 600,
    )  # fmt: skip
    changed = msgspec.structs.replace(holder, **changes)
    Path(path).write_bytes(msgspec.json.encode(changed))
    return changed


def test_a_lock_names_its_holder_and_is_given_back(shell: Shell, path: str) -> None:
    lock = HostLock(shell, path=path)

    lock.hold("eagle on :30000")
    holder = lock.holder()
    lock.hold("eagle on :30000")
    lock.release()

    assert holder is not None
    assert (holder.pid, holder.purpose) == (os.getpid(), "eagle on :30000")
    assert holder.is_this_process
    assert not lock.exists()


def test_a_second_lock_of_this_process_is_the_same(shell: Shell, path: str) -> None:
    first, second = HostLock(shell, path=path), HostLock(shell, path=path)

    first.hold("a")

    assert second.hold("b") is None


def test_the_lock_of_somebody_else_is_refused_with_owner_age_and_purpose(
    shell: Shell, path: str
) -> None:
    written(path)

    with pytest.raises(HostError, match=r"mo@elsewhere \(pid 1\) .* for 10 min: ddtree sweep"):
        HostLock(shell, path=path).hold("x")

    HostLock(shell, path=path).release()
    assert Path(path).exists()


def test_the_lock_of_a_dead_process_of_this_machine_is_taken_over_with_a_notice(
    shell: Shell, path: str
) -> None:
    lock = HostLock(shell, path=path)
    lock.hold("first")
    mine = lock.holder()
    assert mine is not None
    written(path, machine=mine.machine, pid=mine.pid, started="0")

    notice = HostLock(shell, path=path).hold("second")

    assert notice is not None
    assert "ddtree sweep" in notice
    holder = lock.holder()
    assert holder is not None
    assert holder.purpose == "second"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]"])
def test_a_damaged_lock_is_explained_and_kept(shell: Shell, path: str, content: bytes) -> None:
    Path(path).write_bytes(content)

    with pytest.raises(HostError, match="cannot take the lock") as error:
        HostLock(shell, path=path).hold("x")

    assert "--break-lock" in str(error.value)
    assert Path(path).read_bytes() == content


def test_a_link_in_the_place_of_the_lock_is_not_followed(
    shell: Shell, path: str, tmp_path: Path
) -> None:
    Path(path).symlink_to(tmp_path / "victim")

    with pytest.raises(HostError):
        HostLock(shell, path=path).hold("x")

    assert not (tmp_path / "victim").exists()


def test_a_broken_lock_says_whose_it_was(shell: Shell, path: str) -> None:
    holder = written(path)

    assert HostLock(shell, path=path).break_lock() == holder
    assert not Path(path).exists()
