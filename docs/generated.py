"""Fills the reference pages from the code when the site is built, so that they cannot be stale.

A page holds a line `<!-- generated: NAME -->`; the hook puts the text of `PARTS[NAME]` there.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import typer
from packaging.requirements import Requirement

from specbench import config as configuration
from specbench.cli.main import app
from specbench.model.columns import COLUMNS
from specbench.report import plots
from specbench.report.checklist import PITFALLS
from specbench.report.flags import FLAGS

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


FOLDERS = {
    "How to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Decisions": "adr",
}


def on_config(config: Any) -> Any:
    """Put every page of a folder into the navigation, listed ones first (called by MkDocs)."""
    root = Path(config["docs_dir"])
    for entry in config["nav"]:
        for title, folder in FOLDERS.items():
            if isinstance(entry, dict) and title in entry:
                pages = (str(p.relative_to(root)) for p in sorted((root / folder).glob("*.md")))
                entry[title] = list(dict.fromkeys([*(entry[title] or []), *pages]))
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of one page (called by MkDocs)."""
    return MARK.sub(lambda found: PARTS[found[1]](), markdown)


def licences() -> str:
    """Give what specbench needs to run: the lowest version, and the licence that it declares."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    needed = map(Requirement, project["project"]["dependencies"])
    rows = [
        f"| {each.name} | {each.specifier} | {_licence(each.name)} |"
        for each in sorted(needed, key=lambda one: one.name)
    ]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows])


def _licence(package: str) -> str:
    """Name the licence: its SPDX expression, else its classifier, else the first line of a text."""
    told = metadata.metadata(package)
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier", [])
        if each.startswith("License :: ") and not each.endswith("OSI Approved")
    ]
    first = (told.get("License") or "").strip().partition("\n")[0]
    return told.get("License-Expression") or ", ".join(classifiers) or first or "not declared"


def cli() -> str:
    """Give every command with its help, arguments and options."""
    return "\n".join(_command("specbench", typer.main.get_command(app)))


def _command(name: str, command: click.Command) -> Iterator[str]:
    commands = getattr(command, "commands", None)
    if commands is not None:
        for child, inner in commands.items():
            yield from _command(f"{name} {child}", inner)
        return
    yield f"## `{name}`\n"
    yield from _help(command.help or "")
    rows = [(_names(one), _text(getattr(one, "help", None) or "")) for one in command.params]
    if rows:
        yield "| argument or option | meaning |\n|---|---|"
        yield from (f"| {names} | {text} |" for names, text in rows)
    yield ""


def _help(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        flat = " ".join(paragraph.split())
        example = flat.removeprefix("Example: ")
        yield f"```console\n$ {example}\n```\n" if example != flat else f"{flat}\n"


def _names(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option) or parameter.param_type_name == "option":
        return ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
    return f"`{(parameter.name or '').upper()}`"


def _text(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def matrix() -> str:
    """Give the keys of a matrix file, from its JSON Schema."""
    return _schema(configuration.matrix_schema())


def hosts() -> str:
    """Give the keys of a hosts file, from its JSON Schema."""
    return _schema(configuration.hosts_schema())


def _schema(schema: dict[str, Any]) -> str:
    lines: list[str] = []
    for name, definition in schema.get("$defs", {}).items():
        properties = definition.get("properties")
        if not properties:
            continue
        required = set(definition.get("required", ()))
        lines += [f"## {name}\n", _text(definition.get("description", "")) + "\n"]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [_key(key, spec, key in required) for key, spec in properties.items()]
        lines += [*_factors(properties), ""]
    return "\n".join(lines)


def _factors(properties: dict[str, Any]) -> Iterator[str]:
    """List the factors that the program knows by name, where a definition has them."""
    known = properties.get("factors", {}).get("properties")
    if known:
        yield "\nKnown factors:\n\n| factor | meaning |\n|---|---|"
        yield from (
            f"| `{name}` | {_text(spec.get('description', _type(spec)))} |"
            for name, spec in known.items()
        )


def _key(name: str, spec: dict[str, Any], required: bool) -> str:
    default = f"`{spec['default']}`" if "default" in spec else ("required" if required else "")
    meaning = _text(spec.get("description", ""))
    return f"| `{name}` | {_text(_type(spec))} | {_text(default)} | {meaning} |"


def _type(spec: dict[str, Any]) -> str:
    match spec:
        case {"$ref": str(reference)}:
            name = reference.rsplit("/", 1)[-1]
            return f"[{name}](#{name.lower()})"
        case {"enum": [*values]}:
            return ", ".join(f"`{value}`" for value in values[:12])
        case {"anyOf": [*choices]}:
            return " or ".join(dict.fromkeys(_type(one) for one in choices))
        case {"type": "array", "items": dict(items)}:
            return f"list of {_type(items)}"
        case {"type": str(name)}:
            return name
        case _:
            return "any"


def columns() -> str:
    """Give every column of the trials table: definition, unit, type, better side, how compared."""
    rows = [
        f"| `{one.name}` | {_text(one.meaning)} | {one.unit} | {one.dtype} | {one.better or ''} |"
        f" {'yes' if one.compared else ''} |"
        for one in COLUMNS
    ]
    head = "| column | definition | unit | type | better | compared |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def flags() -> str:
    """Give every flag that a row can carry, and what to do about it."""
    rows = [
        f"| `{name}` | {_text(one.meaning)} | {_text(one.advice)} |"
        f" [{one.pitfall}](checklist.md#{one.pitfall.lower()}) |"
        for name, one in FLAGS.items()
    ]
    return "\n".join(["| flag | means | what to do | mistake |", "|---|---|---|---|", *rows])


def checklist() -> str:
    """Give the known mistakes that every report looks for."""
    rows = [
        f'| <span id="{one.id.lower()}">{one.id}</span> | {_text(one.mistake)} |'
        for one in PITFALLS
    ]
    return "\n".join(["| id | known mistake |", "|---|---|", *rows])


def plot_functions() -> str:
    """Give the plots of the Python API with the first line of their documentation."""
    lines = []
    for name in plots.__all__:
        if name in {"save", "using", "write_overview"}:
            continue
        text = (getattr(plots, name).__doc__ or "").strip().splitlines()[0]
        lines.append(f"| `sb.plots.{name}` | {_text(text)} |")
    return "\n".join(["| function | shows |", "|---|---|", *lines])


PARTS: dict[str, Callable[[], str]] = {
    "licences": licences,
    "cli": cli,
    "matrix": matrix,
    "hosts": hosts,
    "columns": columns,
    "flags": flags,
    "checklist": checklist,
    "plots": plot_functions,
}
