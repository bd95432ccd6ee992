"""hosts.yaml to Hosts: defaults, environment references, secrets kept out."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from specbench.backends.bearer import bearer
from specbench.config.document import Entries, Node, Problems, parse_document, read_text
from specbench.config.records import (
    TOP,
    decode,
    key_place,
    refuse_control_characters,
    scalar_at,
)
from specbench.config.secrets import is_private, refuse_literal_secrets, resolved
from specbench.errors import InputError
from specbench.model.host import LAUNCHER_TRAITS, Host

LOCAL = "local"
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:\[\]%][A-Za-z0-9_.:\[\]%-]{0,254}")
_MEETING_POINT = re.compile(_ADDRESS.pattern + r":[0-9]{1,5}")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,250}")


def _without_name(name: str) -> type[msgspec.Struct]:
    """Return Host as it stands in the file: without what other entries tell, its name first."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(Host):
        if field.name in ("name", "api_key_env", "node_hosts"):
            continue
        default = (
            field.default
            if field.default_factory is msgspec.NODEFAULT
            else msgspec.field(default_factory=field.default_factory)
        )
        fields.append((field.name, field.type, default))
    return msgspec.defstruct(name, fields, kw_only=True, frozen=True, forbid_unknown_fields=True)


HostEntry = _without_name("HostEntry")


class HostsFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Machines: how each is reached, how services are started there, where they answer."""

    hosts: dict[str, HostEntry]  # type: ignore[valid-type]  # made from Host's own fields
    defaults: HostEntry = HostEntry()  # type: ignore[valid-type]  # as above


def read_hosts(
    path: str | Path | None, environ: Mapping[str, str] | None = None
) -> dict[str, Host]:
    """Read a hosts file; `local` is this machine unless the file says otherwise.

    `${NAME}` is taken from `environ` (the process's by default). A literal secret is accepted only
    in a file that nobody else can read (mode 0600).

    Raises:
        InputError: with file:line:column; InputErrors: several of them.
    """
    hosts = {LOCAL: Host(name=LOCAL)}
    if path is None:
        return hosts
    text = read_text(path)
    private = is_private(path)
    return hosts | parse_hosts(text, str(path), environ=environ, private=private)


def parse_hosts(
    text: str,
    path: str = "hosts.yaml",
    *,
    environ: Mapping[str, str] | None = None,
    private: bool = False,
) -> dict[str, Host]:
    """Decode the text of a hosts file; `private` allows literal secrets.

    Raises:
        InputError: as `read_hosts`.
    """
    problems = Problems()
    raw = parse_document(text, path, problems)
    if raw is None:
        problems.raise_any()
        raise InputError("the file is empty", where=f"{path}:1:1")
    if not private:
        advice = "write ${NAME} and export NAME, or make the file yours alone: chmod 600"
        refuse_literal_secrets(raw, problems, advice)
    tree = cast("Entries", resolved(raw, problems, os.environ if environ is None else environ))
    refuse_control_characters(tree, problems)
    shape = decode(tree, HostsFile, problems, TOP)
    problems.raise_any()
    hosts = _hosts(shape, tree, raw, problems) if shape is not None else {}
    problems.raise_any()
    return hosts


def _hosts(shape: HostsFile, tree: Entries, raw: Entries, problems: Problems) -> dict[str, Host]:
    """Lay each host's own keys over the defaults; environments merge."""
    defaults = _given(shape.defaults, tree, "defaults")
    hosts: dict[str, Host] = {}
    for name, entry in shape.hosts.items():
        if not _HOST_NAME.fullmatch(name):
            place = key_place(tree, "hosts", name)
            problems.add(f"{name!r:.60} is no name of a host", place, "letters, digits, . _ -")
            continue
        own = _given(entry, tree, "hosts", name)
        values = {**defaults, **own, "env": defaults.get("env", {}) | own.get("env", {})}
        variable = _variable(raw, ("hosts", name)) or _variable(raw, ("defaults",))
        hosts[name] = Host(name=name, api_key_env=variable, **values)
        _check(hosts[name], tree, problems)
    return {name: _with_nodes(host, hosts, tree, problems) for name, host in hosts.items()}


def _with_nodes(host: Host, hosts: Mapping[str, Host], tree: Entries, problems: Problems) -> Host:
    """Put the hosts that `nodes` names into the host; note names that cannot be nodes."""
    place = key_place(tree, "hosts", host.name, "nodes")
    for name in host.nodes:
        node = hosts.get(name)
        if node is None:
            problems.add(f"{host.name}.nodes: no host named {name!r:.60}", place, "see hosts:")
        elif name == host.name or node.nodes or host.nodes.count(name) > 1:
            what = f"{host.name}.nodes: {name} cannot be a node of it"
            problems.add(what, place, "each node once; node 0 is the host itself, nodes have none")
        elif unable := [x for x in (node.launcher, host.launcher) if not LAUNCHER_TRAITS[x].starts]:
            what = f"{host.name}.nodes: launcher {unable[0]} starts no node"
            able = [name for name, traits in LAUNCHER_TRAITS.items() if traits.starts]
            problems.add(what, place, f"{', '.join(able)}, on every node")
    nodes = tuple(hosts[name] for name in host.nodes if name in hosts)
    if host.is_local and not host.dist_init_addr and not all(node.is_local for node in nodes):
        what = f"{host.name}.nodes: without an address of this machine its nodes cannot reach it"
        problems.add(what, place, "give dist_init_addr: ADDRESS:PORT")
    return msgspec.structs.replace(host, node_hosts=nodes)


def _given(entry: object, tree: Entries, *steps: str) -> dict[str, Any]:
    """Return the keys that stand in the file, decoded."""
    node: Node = tree
    for step in steps:
        if not isinstance(node, Entries) or step not in node.entries:
            return {}
        node = node.entries[step][1]
    names = node.entries if isinstance(node, Entries) else ()
    return {name: getattr(entry, name) for name in names}


def _variable(raw: Entries, steps: tuple[str, ...]) -> str | None:
    """Return the variable that `api_key` refers to."""
    node = scalar_at(raw, *steps, "api_key")
    match = _REFERENCE.fullmatch(node.text) if node else None
    return match[1] if match else None


def _check(host: Host, tree: Entries, problems: Problems) -> None:
    """Note what fits the types and still cannot work."""

    def note(key: str, what: str, hint: str | None = None) -> None:
        place = key_place(tree, "hosts", host.name, key)
        if place == key_place(tree, "hosts", host.name):  # not its own: from the defaults
            place = key_place(tree, "defaults", key) if "defaults" in tree.entries else place
        problems.add(f"{host.name}.{key}: {what}", place, hint)

    if host.address is not None and not _ADDRESS.fullmatch(host.address):
        note("address", f"{host.address!r:.60} is no address", "a DNS name, an IP or an SSH alias")
    if host.unit is not None and not _UNIT.fullmatch(host.unit):
        note("unit", f"{host.unit!r:.60} is no name of a unit", "server-bench.service")
    traits = LAUNCHER_TRAITS[host.launcher]
    if traits.missing is not None:
        note("launcher", *traits.missing)
    if traits.needs is not None and not getattr(host, traits.needs[0]):
        key, example = traits.needs
        note("launcher", f"{host.launcher} needs the key {key!r}", f"{key}: {example}")
    if host.dist_init_addr is not None and not _MEETING_POINT.fullmatch(host.dist_init_addr):
        note(
            "dist_init_addr", f"{host.dist_init_addr!r:.60} is not ADDRESS:PORT", "192.0.2.7:20000"
        )
    if host.api_key is not None:
        try:
            bearer(host.api_key, host.api_key_env or "api_key")
        except InputError as error:
            note("api_key", error.what, error.hint)
    problem = _url_problem(host.url)
    if problem:
        note("url", problem, "http://127.0.0.1:30000")


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        shown = repr(url.rpartition("@")[2])
        return f"{shown:.80} is no URL ({error})"
    if "@" in parts.netloc:
        return "a URL must not hold a user or a password"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{url!r:.80} is no http or https URL"
    if port is None or parts.query or parts.fragment:
        return f"{url!r:.80} needs a port, and neither query nor fragment"
    return None
