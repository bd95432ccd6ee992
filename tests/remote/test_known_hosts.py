"""Lines of known_hosts: those about a machine count, by OpenSSH's rules; others stop nothing."""

import subprocess
from pathlib import Path

import paramiko
import pytest

from specbench.remote.known_hosts import known_keys

SALT = "MDEyMzQ1Njc4OTAxMjM0NTY3ODk="
"""Fixed: a random one would give the test another name in every process."""
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIBaV/Otj9q0RK+ijiSAp21UD3a2XHkiHjQkFq4u4m6sy"
LINE = f"far.example ssh-ed25519 {KEY}\n".encode()


@pytest.mark.parametrize(
    "other",
    [
        b"@cert-authority *.corp.example ssh-ed25519 " + KEY.encode(),
        b"@revoked other.example ssh-ed25519 " + KEY.encode(),
        b"host.example ssh-rsa AAAAnotbase64!!",
        b"host.example ssh-ed25519 AAAA",
        b"h\xf6st.example ssh-rsa \xff\xfe",
        b"host.example",
        b"@what",
        b"|1|no|hash ssh-ed25519 AAAA",
        b"\x00\xff",
    ],
)
def test_a_line_about_another_host_hides_no_key(other: bytes, tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(other + b"\n" + LINE + other + b"\n")

    known = known_keys("far.example", [str(tmp_path / "known"), str(tmp_path / "absent")])

    assert [key.get_base64() for key in known.keys] == [KEY]
    assert (known.revoked, known.unusable) == ((), ())


@pytest.mark.parametrize(
    ("patterns", "name", "found"),
    [
        ("a,far.example", "far.example", True),
        ("FAR.example", "far.EXAMPLE", True),
        ("*.example", "far.example", True),
        ("f?r.example", "far.example", True),
        ("*.example,!far.example", "far.example", False),
        ("[far.example]:2222", "[far.example]:2222", True),
        ("[*]:2222", "[far.example]:2222", True),
        ("far.example", "[far.example]:2222", False),
        (paramiko.HostKeys.hash_host("far.example", SALT), "far.example", True),
        (paramiko.HostKeys.hash_host("near.example", SALT), "far.example", False),
    ],
)
def test_names_match_as_openssh_matches_them(
    patterns: str, name: str, found: bool, tmp_path: Path
) -> None:
    (tmp_path / "known").write_text(f"{patterns} ssh-ed25519 {KEY}\n")

    assert bool(known_keys(name, [str(tmp_path / "known")]).keys) is found


@pytest.mark.process
@pytest.mark.parametrize("patterns", ["*.example,!far.example", "f?r.example", "[far.example]:22"])
def test_ssh_keygen_finds_the_same_lines(patterns: str, tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"{patterns} ssh-ed25519 {KEY}\n")
    words = ["ssh-keygen", "-F", "far.example", "-f", str(tmp_path / "known")]

    done = subprocess.run(words, capture_output=True, check=False)

    known = known_keys("far.example", [str(tmp_path / "known")])
    assert bool(known.keys) is (done.returncode == 0)


def test_a_revoked_key_and_what_cannot_be_used_are_told_apart(tmp_path: Path) -> None:
    lines = [
        f"@revoked far.example ssh-ed25519 {KEY}",
        f"@cert-authority *.example ssh-ed25519 {KEY}",
        "far.example ssh-ed25519 AAAA!",
    ]
    (tmp_path / "known").write_text("\n".join(lines))

    known = known_keys("far.example", [str(tmp_path / "known")])

    assert known.keys == ()
    assert [key.get_base64() for key in known.revoked] == [KEY]
    assert [text.split(":")[1].split()[0] for text in known.unusable] == ["2", "3"]
