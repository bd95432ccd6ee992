"""Where a drive goes: addresses, keys, proxies, TLS, and what cannot be reached."""

import socket
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError, InputError
from specbench.loadgen import drive
from tests.loadgen.scripted import good, make_load, run, self_signed, serving, with_target
from tests.ports import free_port

pytestmark = pytest.mark.process


def test_connection_refused_is_one_sentence_and_status_4(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"cannot connect to 127\.0\.0\.1 port") as caught:
        run(make_load(tmp_path, f"http://127.0.0.1:{free_port()}"), tmp_path / "rows")

    assert caught.value.exit_code == 4
    assert not (tmp_path / "rows").exists()


def test_a_name_that_does_not_resolve_is_one_sentence_and_status_4(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"cannot look up nowhere\.invalid"):
        run(make_load(tmp_path, "http://nowhere.invalid:1"), tmp_path / "rows")


def test_tls_to_a_server_without_it_is_one_sentence_and_status_4(tmp_path: Path) -> None:
    def talk(connection: socket.socket, number: int) -> None:
        connection.sendall(b"no TLS here\r\n\r\n")

    with serving(talk) as server:
        load = make_load(tmp_path, f"https://127.0.0.1:{server.port}", connect_timeout_s=0.5)

        with pytest.raises(HostError, match=r"cannot open a connection .*: tls: "):
            run(load, tmp_path / "rows")


def test_a_certificate_that_nobody_trusts_is_one_sentence_and_status_4(tmp_path: Path) -> None:
    with serving(good, tls=self_signed(tmp_path)) as server:
        load = make_load(tmp_path, f"https://127.0.0.1:{server.port}")

        with pytest.raises(HostError, match=r"tls: .*CERTIFICATE_VERIFY_FAILED"):
            run(load, tmp_path / "rows")


def test_tls_is_stamped_at_the_read_and_says_so(tmp_path: Path) -> None:
    with serving(good, tls=self_signed(tmp_path)) as server:
        plain = make_load(tmp_path, f"https://127.0.0.1:{server.port}", requests=4)
        target = msgspec.structs.replace(plain.target, verify_tls=False)

        report, found = run(msgspec.structs.replace(plain, target=target), tmp_path / "rows")

    assert [(row.status, row.stamp, row.output_tokens) for row in found] == [("ok", "read", 4)] * 4
    assert report.accuracy.stamp == "read"
    assert report.accuracy.read_lag_us_p99 is None


@pytest.mark.parametrize(
    "url", ["127.0.0.1:3", "ftp://h", "http://", "http://h:99999", "http://h /x"]
)
def test_a_url_that_is_none_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="URL"):
        run(make_load(tmp_path, url), tmp_path / "rows")


@pytest.mark.parametrize("content", [b"", b"{nonsense\n", b'{"text":"no id"}\n', b"\xff\xfe\n"])
def test_prompts_that_are_none_are_refused_before_anything_is_sent(
    content: bytes, tmp_path: Path
) -> None:
    with serving(good) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}")
        Path(load.prompts_path).write_bytes(content)

        with pytest.raises(InputError, match="prompt"):
            run(load, tmp_path / "rows")

    assert server.requests == []


def test_the_key_is_sent_and_is_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", "s3cr3t-key")
    with serving(good) as server:
        load = with_target(tmp_path, server.port, api_key_env="SERVER_KEY")
        events = drive(load, tmp_path / "rows")

        said = [msgspec.json.encode(event) for event in events]

    assert b"\r\nAuthorization: Bearer s3cr3t-key\r\n" in server.requests[0]
    assert not any(b"s3cr3t" in each for each in [*said, (tmp_path / "rows").read_bytes()])


def test_a_key_that_is_not_set_is_refused(tmp_path: Path) -> None:
    with serving(good) as server, pytest.raises(InputError, match="NO_SUCH_KEY"):
        run(with_target(tmp_path, server.port, api_key_env="NO_SUCH_KEY"), tmp_path / "rows")


def test_ipv6_literals_and_path_prefixes_are_understood(tmp_path: Path) -> None:
    with serving(good, socket.AF_INET6) as server:
        load = make_load(tmp_path, f"http://[::1]:{server.port}/prefix/")

        report, _ = run(load, tmp_path / "rows")

    assert report.failed == 0
    assert server.requests[0].startswith(b"POST /prefix/v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nHost: [::1]:%d\r\n" % server.port in server.requests[0]


def test_proxies_of_the_environment_are_used_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(good) as proxy, serving(good) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        run(with_target(tmp_path, server.port), tmp_path / "direct")
        run(with_target(tmp_path, server.port, use_proxy=True), tmp_path / "proxied")

    assert len(server.requests) == 2
    assert len(proxy.requests) == 2
    url = b"POST http://127.0.0.1:%d/v1/chat/completions HTTP/1.1" % server.port
    assert proxy.requests[0].startswith(url)
