"""Values that must neither be written nor shown, wherever they turn up."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from specbench.model.host import HIDDEN, Host, is_secret_name

SHORTEST = 6
"""A shorter value is hidden by its name alone: it occurs in ordinary words."""

_NAMED = re.compile(r"""(-{1,2}[A-Za-z][\w-]*)["']?[=\s]+|([A-Za-z_][\w-]*)["']?\s*[=:]\s*""")
_VALUE = re.compile(r"""["']?([^\s"';,]+)""")
_BEARER = re.compile(r"(?i)\bbearer\s+([^\s\"']+)")
_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_KEY = re.compile(r"\b(?:sk-|ghp_|github_pat_|hf_(?=[A-Za-z]{20}))[\w-]{12,}")

Value = TypeVar("Value")


class Secrets(msgspec.Struct, frozen=True):
    """The values, the longest first; `hide` puts `***` in their place, whatever form they take."""

    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Iterable[str]) -> Self:
        """Take the values that are long enough to be told from ordinary words, line by line."""
        lines = {line.strip() for value in values for line in value.splitlines()}
        told = {form for line in lines if len(line) >= SHORTEST for form in _forms(line)}
        return cls(tuple(sorted(told, key=lambda form: (-len(form), form))))

    def hide(self, text: str) -> str:
        """Return the text without the values."""
        for value in self.values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def hide_bytes(self, content: bytes) -> bytes:
        """Return the bytes without the values."""
        for value in self.values:
            content = content.replace(value.encode(errors="surrogateescape"), HIDDEN.encode())
        return content

    def hide_in(self, value: Value) -> Value:
        """Return a value of texts, records and containers of them without the secrets."""
        return self._without(value) if self.values else value

    def _without(self, value: Any) -> Any:
        match value:
            case str():
                return self.hide(value)
            case dict():
                return {self._without(name): self._without(each) for name, each in value.items()}
            case list() | tuple():
                return type(value)(map(self._without, value))
            case msgspec.Struct():
                return self._without_in_fields(value)
            case _:
                return value

    def _without_in_fields(self, record: msgspec.Struct) -> msgspec.Struct:
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        fresh = {name: self._without(each) for name, each in fields.items()}
        changed = {name: each for name, each in fresh.items() if each != fields[name]}
        return msgspec.structs.replace(record, **changed) if changed else record


NO_SECRETS = Secrets()


def secrets_of(hosts: Iterable[Host], *, environ: Mapping[str, str]) -> Secrets:
    """Gather the secrets of hosts and their nodes, and those of this process's environment.

    A server on this machine inherits `environ`, and may print it.
    """
    found = list(_named(environ))
    for host in (each for first in hosts for each in (first, *first.node_hosts)):
        found += [host.api_key or "", *_named(host.env)]
        found += secrets_in([*host.command, *_container_words(host)])
    return Secrets.of(found)


def _named(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names speak of secrets, and not of where one lies."""
    return (
        value
        for name, value in env.items()
        if is_secret_name(name) and not name.lower().endswith(("_file", "_path", "_dir"))
    )


def secrets_in(words: list[str]) -> Iterator[str]:
    """Yield what looks like a secret in the words of a command.

    The value of a flag or of a variable whose name speaks of one, at any depth of quoting; what
    follows `Bearer`; the password of a URL; a key by the form that its makers gave it.
    """
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word.startswith("-") and "=" not in word and is_secret_name(word):
            yield following
        for match in _NAMED.finditer(word):
            if is_secret_name(match[1] or match[2]):
                value = _VALUE.match(word, match.end())
                yield value[1] if value else ""
        yield from _BEARER.findall(word)
        yield from _PASSWORD.findall(word)
        yield from _KEY.findall(word)


def _container_words(host: Host) -> Iterator[str]:
    for value in host.container.values():
        yield from (value,) if isinstance(value, str) else value


def _forms(value: str) -> set[str]:
    """Give the value as it is, as JSON writes it, and as a URL does."""
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value),
    }
