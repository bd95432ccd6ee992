"""specbench: the instrument of record for speculative decoding.

The public Python API; every name is resolved on first use, so that importing the package costs
nothing (`specbench --help` answers in a fraction of a second).

    import specbench as sb

    rec = sb.open("results/...")        # or sb.run("matrix.yaml")
    rec.trials, rec.requests            # pandas DataFrames
    sb.compare(rec, "dflash", "ddtree", metric="tok_s")
    sb.plots.speedup(rec)               # a matplotlib Axes
"""

from typing import TYPE_CHECKING, Any

from specbench.version import __version__

__all__ = ["__version__", "compare", "open", "plots", "run"]

if TYPE_CHECKING:
    from specbench.report import plots
    from specbench.workflows.api import compare, open, run  # noqa: A004 - the API's own word


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "plots":
        from specbench.report import plots  # noqa: PLC0415 - lazy by design

        return plots
    if name in __all__:
        from specbench.workflows import api  # noqa: PLC0415 - lazy by design

        return getattr(api, name)
    raise AttributeError(f"module 'specbench' has no attribute {name!r}")
