"""The root file system of the test hosts: Debian with systemd, sshd and sudo, built once."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = (
    "systemd,systemd-sysv,libpam-systemd,dbus,openssh-server,sudo,python3-minimal,python3,"
    "iproute2,procps,libfaketime"
)
CACHE = Path("/var/tmp/specbench-testhosts")
BUILD_S = 600
ADMIN_PASSWORD = "correct horse"

# The user's own unit that tests lend to specbench; its Restart=always is meant to be in the way.
UNIT = """\
[Unit]
Description=the user's own server
[Service]
ExecStart=/bin/sleep infinity
Restart=always
RestartSec=1
"""

FILES = {
    "etc/systemd/system/sglang-bench.service": UNIT,
    "etc/ssh/sshd_config.d/tests.conf": "PasswordAuthentication no\nMaxStartups 100:30:200\n",
    "etc/sudoers.d/tests": "ops ALL=(ALL:ALL) NOPASSWD: ALL\nadmin ALL=(ALL:ALL) ALL\n",
    "etc/fstab": "",
    "etc/machine-id": "",
    "etc/systemd/journald.conf.d/tests.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=8M\n",
}
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "getty@.service", "console-getty.service",
          "systemd-networkd.service", "fstrim.timer", "e2scrub_all.timer")  # fmt: skip


def image() -> Path:
    """Return the image's folder, building it first where there is none (about a minute)."""
    made_of = [Path(__file__).read_bytes(), PACKAGES.encode()]
    digest = hashlib.sha256(b"".join(made_of)).hexdigest()[:12]
    target = CACHE / f"image-{digest}"
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "sbin/init").exists():
            _build(target)
    return target


def _build(target: Path) -> None:
    work = CACHE / f"building-{os.getpid()}"
    sources = CACHE / "sources.list"
    sources.write_text(_apt_sources())
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words += ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    words += [f"--include={PACKAGES}", "--dpkgopt=force-unsafe-io"]
    words += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    words += [_codename(), str(work), str(sources)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_S, check=False)
        if done.returncode:
            raise RuntimeError("mmdebstrap failed:\n" + done.stderr[-2000:])
        _customise(work)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _customise(root: Path) -> None:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "etc/sudoers.d/tests").chmod(0o440)
    for unit in MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for user in ("ops", "admin"):
        groups = "systemd-journal" if user == "ops" else "users"
        _inside(root, "useradd", "--create-home", "--shell=/bin/bash", f"--groups={groups}", user)
    _inside(root, "chpasswd", content=f"admin:{ADMIN_PASSWORD}\n")


def _inside(root: Path, *words: str, content: str = "") -> None:
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(["chroot", str(root), *words], input=content, text=True, check=True, env=path)


def _apt_sources() -> str:
    wanted = "$(CREATED_BY) deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    words = ["apt-get", "indextargets", "--no-release-info", "--format", wanted]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    own = _codename()
    lines = {line.removeprefix("Packages ") for line in listed.splitlines() if "Packages" in line}
    kept = sorted(line for line in lines if line.split()[2].startswith(own))
    return "".join(f"{line}\n" for line in kept)


def _codename() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise RuntimeError("/etc/os-release names no VERSION_CODENAME")
