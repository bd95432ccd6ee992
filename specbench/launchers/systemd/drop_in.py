"""The drop-in that turns a user's unit into the server of one block. Pure text."""

import msgspec

from specbench.hosts.command import Launch
from specbench.model.host import is_secret_name

MARK = "# Written by specbench for one launch; removed when the run ends (specbench hosts restore)."


class DropIn(msgspec.Struct, frozen=True, kw_only=True):
    """Two files: the drop-in, and the environment that must not show in `systemctl show`."""

    unit: str
    secrets: str


def render_drop_in(launch: Launch, *, secrets_path: str, stop_timeout_s: float) -> DropIn:
    """Write the drop-in of a launch.

    Restart=no: a failed load must be seen, not repeated for ever. KillMode=mixed: SIGTERM goes to
    the main process alone, since SGLang takes one to its children for a crash of theirs (0.5.23).
    Output goes to the journal without a rate limit, or the diagnosis would lack its lines.
    """
    plain = {name: value for name, value in launch.env.items() if not is_secret_name(name)}
    secret = {name: value for name, value in launch.env.items() if is_secret_name(name)}
    lines = [
        MARK,
        "[Service]",
        "ExecStart=",
        "ExecStart=" + " ".join(quote_word(word) for word in launch.argv),
        *(f"Environment={quote_text(f'{name}={value}')}" for name, value in plain.items()),
        *([f"EnvironmentFile={secrets_path}"] if secret else []),
        *([f"WorkingDirectory={launch.workdir}"] if launch.workdir else []),
        "Restart=no",
        "KillMode=mixed",
        "SendSIGKILL=yes",
        f"TimeoutStopSec={stop_timeout_s:g}",
        "TimeoutStartSec=infinity",
        "StandardOutput=journal",
        "StandardError=journal",
        "LogRateLimitIntervalSec=0",
        "CPUAccounting=yes",
        "IOAccounting=yes",
    ]
    assignments = [f"{name}={_environment_file_text(value)}" for name, value in secret.items()]
    return DropIn(
        unit="\n".join(lines) + "\n",
        secrets="".join(f"{assignment}\n" for assignment in assignments),
    )


def quote_word(word: str) -> str:
    """Quote an argument of ExecStart: `%` starts a specifier there, `$` a variable."""
    return quote_text(word).replace("$", "$$")


def quote_text(text: str) -> str:
    """Quote a value of a unit file, in which C escapes and `%` specifiers are expanded."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    for character, escape in (("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        escaped = escaped.replace(character, escape)
    return f'"{escaped}"'


def _environment_file_text(value: str) -> str:
    """Quote a value of an EnvironmentFile: as in a shell, without variables."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped.replace("$", chr(92) + "$")}"'
