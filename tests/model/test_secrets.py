"""A secret is hidden by its value, wherever it stands and in whatever form."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.model.host import Host
from specbench.model.secrets import NO_SECRETS, Secrets, secrets_in, secrets_of
from specbench.model.service import LoadFailure

KEY = "sk-0123456789abcdef"
PRINTABLE = [chr(code) for code in range(33, 127) if chr(code) != "*"]


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--api-key", KEY],
        ["serve", f"--api-key={KEY}"],
        ["sh", "-c", f"exec serve --api-key {KEY} --port 1"],
        ["sh", "-c", f"export HF_TOKEN='{KEY}'; exec serve"],
        ["--env", f"HF_TOKEN={KEY}"],
        [f"--env=HF_TOKEN={KEY}"],
        ["serve", "--config", json.dumps({"api_key": KEY, "port": 1})],
        ["curl", "-H", f"Authorization: Bearer {KEY}"],
        [f"--proxy=http://me:{KEY}@proxy:3128"],
        ["serve", KEY],
    ],
)
def test_a_key_in_a_command_or_in_container_arguments_is_found(words: list[str]) -> None:
    host = Host(name="h", container={"args": tuple(words)})

    assert KEY in secrets_in(words)
    assert KEY in secrets_of([host], environ={}).values
    assert KEY in secrets_of([Host(name="h", command=tuple(words))], environ={}).values


def test_what_is_no_secret_stays_readable() -> None:
    words = ["serve", "--max-tokens", "512000", "--tokenizer-mode=auto", "--hf-overrides", "{}"]
    environ = {"HOME": "/home/me", "API_KEY_FILE": "/home/me/key", "MY_TOKEN": "short"}

    assert list(filter(None, secrets_in(words))) == []
    assert secrets_of([], environ=environ) == NO_SECRETS


def test_the_secrets_of_nodes_and_of_the_environment_are_hidden_too() -> None:
    node = Host(name="n", env={"NODE_TOKEN": "node-secret"})
    host = Host(name="h", api_key="host-secret", node_hosts=(node,))

    found = secrets_of([host], environ={"WANDB_API_KEY": "my-own-secret"})

    assert set(found.values) == {"node-secret", "host-secret", "my-own-secret"}


@given(st.text(PRINTABLE, min_size=6), st.text(), st.text())
def test_no_form_of_a_secret_is_left_in_a_text(secret: str, before: str, after: str) -> None:
    hidden = Secrets.of([secret])

    for form in (secret, json.dumps(secret)[1:-1], quote(secret)):
        assert form not in hidden.hide(before + form + after)


def test_records_and_containers_are_hidden_in_at_any_depth() -> None:
    failure = LoadFailure(pattern="x", cause=f"bad {KEY}", hint="", evidence=(f"key={KEY}",))

    told = Secrets.of([KEY]).hide_in({"a": [failure, {KEY: 1}], "b": 3})

    expected = LoadFailure(pattern="x", cause="bad ***", hint="", evidence=("key=***",))
    assert told == {"a": [expected, {"***": 1}], "b": 3}
