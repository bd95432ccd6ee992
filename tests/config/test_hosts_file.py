"""Laws of hosts files: defaults, references to the environment, secrets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.config import parse_hosts, read_hosts
from specbench.errors import InputError
from specbench.model.host import Host, is_secret_name

CONTRACT = """\
defaults: {user: bench, launcher: systemd, env: {A: 1, B: x}}
hosts:
  b300:
    address: 192.0.2.7
    unit: sglang-bench.service
    python: /opt/sglang/.venv/bin/python
    gpus: 8
    url: http://127.0.0.1:30000
    drive_from: host
    load_timeout_s: 1200
    env: {B: z}
"""


def message_of(text: str, environ: dict[str, str] | None = None, *, private: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        parse_hosts(text, "h.yaml", environ=environ or {}, private=private)
    return str(caught.value)


def test_a_host_takes_the_defaults_and_its_own() -> None:
    host = parse_hosts(CONTRACT, environ={})["b300"]

    assert host.user == "bench"
    assert host.launcher == "systemd"
    assert host.env == {"A": "1", "B": "z"}
    assert host.load_timeout_s == 1200.0


def test_nodes_are_found_by_name_and_hidden_where_the_host_is_hidden() -> None:
    text = "hosts: {a: {nodes: [c, b]}, b: {}, c: {api_key: sesame}}"

    host = parse_hosts(text, environ={}, private=True)["a"]

    assert [node.name for node in host.node_hosts] == ["c", "b"]
    assert "sesame" not in repr(host)


def test_switches_in_an_environment_are_texts_as_they_are_written() -> None:
    text = "defaults: {env: {A: true}}\nhosts: {a: {env: {B: 1.50}}, b: {}}\n"

    hosts = parse_hosts(text, environ={})

    assert (hosts["a"].env, hosts["b"].env) == ({"A": "true", "B": "1.50"}, {"A": "true"})


def test_an_error_in_the_defaults_is_told_where_they_stand() -> None:
    assert "h.yaml:1:12" in message_of("defaults: {launcher: systemd}\nhosts: {a: {}}\n")


def test_local_needs_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(CONTRACT)

    assert read_hosts(None) == {"local": Host(name="local")}
    assert set(read_hosts(path, {})) == {"local", "b300"}


def test_local_may_be_changed() -> None:
    hosts = parse_hosts("hosts: {local: {url: 'http://127.0.0.1:31000'}}", environ={})

    assert hosts["local"].url.endswith("31000")


def test_references_are_taken_from_the_environment() -> None:
    text = "hosts: {a: {address: '${A}.example', user: '${P}', api_key: '${K}'}}"

    host = parse_hosts(text, environ={"A": "x", "P": "7", "K": "123"})["a"]

    assert (host.address, host.user, host.api_key) == ("x.example", "7", "123")
    assert host.api_key_env == "K"


def test_an_unquoted_reference_may_be_a_number() -> None:
    host = parse_hosts("hosts:\n  a:\n    port: ${P}\n", environ={"P": "2222"})["a"]

    assert host.port == 2222


def test_a_variable_that_is_not_set_is_told_at_its_place() -> None:
    message = message_of("hosts:\n  a:\n    address: x-${NIX}\n")

    assert "NIX is not set" in message
    assert "h.yaml:3:16" in message


@pytest.mark.parametrize("reference", ["${", "${}", "${A B}", "${A-b}"])
def test_a_malformed_reference_is_refused(reference: str) -> None:
    assert "refers to no variable" in message_of(f"hosts: {{a: {{address: '{reference}'}}}}")


@pytest.mark.parametrize(
    "entry",
    ["api_key: abc", "api_key: 123", "env: {HF_TOKEN: abc}", "env: {MY_SECRET: 'abc-${X}'}"],
)
def test_a_literal_secret_is_refused_and_not_repeated(entry: str) -> None:
    message = message_of("hosts: {a: {" + entry + "}}", {"X": "1"})

    assert "secret" in message
    assert "abc" not in message


def test_a_literal_secret_is_accepted_in_a_file_of_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts: {a: {api_key: abc}}")
    path.chmod(0o640)

    with pytest.raises(InputError, match="secret"):
        read_hosts(path)
    path.chmod(0o600)

    assert read_hosts(path)["a"].api_key == "abc"


def test_secrets_are_not_shown() -> None:
    host = parse_hosts(
        "hosts: {a: {api_key: '${K}', env: {HF_TOKEN: '${K}', N: 1}}}", environ={"K": "s3cret"}
    )["a"]

    assert host.api_key == "s3cret"
    assert "s3cret" not in repr(host)
    assert "s3cret" not in str(host.redacted())
    assert host.redacted().env["N"] == "1"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("api_key", True),
        ("ADMIN-API-KEY", True),
        ("DB_PASSWORD", True),
        ("max_tokens", False),
        ("tokenizer-path", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("speculative-token-map", False),
        ("KEYBOARD", False),
    ],
)
def test_which_names_are_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts: {a: {launcher: sytemd}}", "'systemd'"),
        ("hosts: {a: {launcher: systemd}}", "'unit'"),
        ("hosts: {a: {launcher: docker}}", "'image'"),
        ("hosts: {a: {launcher: slurm}}", "no Slurm jobs"),
        ("hosts: {a: {prot: 22}}", "'port'"),
        ("hosts: {a: {port: 70000}}", "<= 65535"),
        ("hosts: {a: {url: 'ftp://x:1'}}", "http"),
        ("hosts: {a: {url: 'http://x'}}", "port"),
        ("hosts: {a: {url: 'http://u:p@x:1'}}", "must not hold"),
        ("hosts: {a: {url: 'ftp://u:p@x:1'}}", "must not hold"),
        ("hosts: {a: {url: 'http://[x:1'}}", "no URL"),
        ("hosts: {a: {url: 'http://x:99999'}}", "no URL"),
        ("hosts: {a: {address: '-oProxyCommand=x'}}", "no address"),
        ("hosts: {a: {address: 'x y'}}", "no address"),
        ("hosts: {a: {launcher: systemd, unit: 'a b; c'}}", "name of a unit"),
        ("hosts: {'../a': {}}", "no name of a host"),
        ("hosts: {a: null}", "must be a mapping"),
        ("hosts: []", "a mapping"),
        ("host: {a: {}}", "'hosts'"),
        ("hosts: {a: {name: b}}", "unknown key 'name'"),
        ("hosts: {a: {load_timeout_s: 0}}", "> 0"),
        ("hosts: {a: {nodes: [b]}}", "no host named 'b'"),
        ("hosts: {a: {nodes: [a]}}", "a cannot be a node"),
        ("hosts: {a: {nodes: [b, b]}, b: {}}", "b cannot be a node"),
        ("hosts: {a: {nodes: [b]}, b: {nodes: [c]}, c: {}}", "b cannot be a node"),
        ("hosts: {a: {nodes: [b]}, b: {launcher: attach}}", "starts no node"),
        ("hosts: {a: {nodes: [b]}, b: {address: x}}", "dist_init_addr"),
        ("hosts: {a: {dist_init_addr: x}}", "ADDRESS:PORT"),
        ("defaults: {user: 3}\nhosts: {a: {}}", "a text"),
    ],
)
def test_each_mistake_is_told(text: str, words: str) -> None:
    assert words in message_of(text)


@given(st.data())
def test_a_damaged_hosts_file_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(CONTRACT)))
    length = data.draw(st.integers(0, 20))
    piece = data.draw(st.one_of(st.sampled_from("[]{}:-\n\t'\"&*!${}"), st.text(max_size=5)))
    text = CONTRACT[:start] + piece + CONTRACT[start + length :]

    try:
        hosts = parse_hosts(text, "h.yaml", environ={})
    except InputError:
        return
    assert all(name == host.name for name, host in hosts.items())
