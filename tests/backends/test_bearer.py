"""An API key that no header can carry is refused before anything is sent, and is never shown."""

import socket

import pytest

from specbench.backends.bearer import bearer
from specbench.backends.client import ControlClient
from specbench.backends.products import backend_for
from specbench.config.hosts_file import parse_hosts
from specbench.errors import InputError
from specbench.loadgen.hotpath.endpoint import resolve
from specbench.model.load import Target

WRONG = ["SECRET-kéy", "SECRET-key\n", "SECRET\r\nX-Other: 1", " SECRET", "SECRET\x00", "SECRET—"]


@pytest.mark.parametrize("key", WRONG)
def test_it_is_refused_without_a_word_of_it(key: str) -> None:
    with pytest.raises(InputError, match="which no header can carry") as refused:
        ControlClient("http://127.0.0.1:9", backend_for("openai"), api_key=key)

    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("key", WRONG[:-2])
def test_a_hosts_file_that_refers_to_it_is_refused_at_its_place(key: str) -> None:
    text = "hosts: {h: {api_key: '${KEY}'}}"

    with pytest.raises(InputError) as refused:
        parse_hosts(text, "hosts.yaml", environ={"KEY": key})

    assert "SECRET" not in str(refused.value)
    assert "hosts.yaml:1:" in str(refused.value)


def test_the_load_path_refuses_it_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", "SECRET-key\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        target = Target(url=url, model="m", api_key_env="MY_KEY", use_proxy=False)

        with pytest.raises(InputError) as refused:
            resolve(target, 5.0)

    assert "MY_KEY" in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_sound_key_is_carried_as_it_is() -> None:
    assert bearer("sk-a/b+c=") == "Bearer sk-a/b+c="
