"""Where text is shown as it is: names of models, hosts and files are no markup of ours."""

from rich.console import Console


def literal(*, stderr: bool = False, width: int | None = None) -> Console:
    """Give a console on which `[red]` and `:smile:` in a name stay what they are."""
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
