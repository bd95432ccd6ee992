"""Write docs/reference/real-engines.md from the outcomes of the last `make test-real`.

python -m tests.real.page
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from tests.real import engines, outcomes
from tests.real.engines import Product

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "real-engines.md"
NAMES: dict[Product, str] = {"sglang": "SGLang", "vllm": "vLLM", "llamacpp": "llama.cpp"}
NOT_MEASURED = "-"
HEAD = """\
# Real engines

What `make test-real` measured in its last run: real servers with tiny models on a CPU of {cores}
cores, started, asked and stopped by specbench. This page is written by a script. The speeds are
those of a model of one million parameters on a shared machine: they show that the figures are there
and add up, and nothing about the products. `accept_len` is defined in [Columns](columns.md); what
the products themselves call acceptance differs.
"""


def number(value: Any, digits: int) -> str:
    """A figure of the page; a dash where it was not measured."""
    return NOT_MEASURED if value is None else f"{value:.{digits}f}"


def table(head: str, rows: list[list[str]]) -> Iterator[str]:
    """A Markdown table under the column names of `head`."""
    names = head.split(" | ")
    yield "| " + head + " |"
    yield "|" + "---|" * len(names)
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def flags_of(text: str | None) -> str:
    """The flags of a row of the table of trials."""
    return ", ".join(f"`{flag}`" for flag in (text or "").split(",") if flag)


def _run(outcome: dict[str, Any]) -> Iterator[str]:
    yield "`specbench run`: started, waited for, measured and stopped, one server an algorithm.\n"
    rows = [
        [
            f"`{trial['algorithm']}`",
            str(trial["concurrency"]),
            number(trial["tok_s"], 0),
            number(trial["tpot_ms_p50"], 2),
            number(trial["accept_len"], 2),
            number(trial["step_ms"], 2),
            flags_of(trial["flags"]) or NOT_MEASURED,
        ]
        for trial in outcome["trials"]
    ]
    head = "algorithm | concurrency | tok_s | tpot_ms_p50 | accept_len | step_ms | flags"
    yield from table(head, rows)


def _load(outcome: dict[str, Any]) -> Iterator[str]:
    yield f"`specbench load` on a running server (`{outcome['mode']}`).\n"
    rows = [
        [
            number(level["concurrency_effective"], 1),
            number(level["tok_s"], 0),
            number(level["ttft_ms_p50"], 1),
            number(level.get("accept_len"), 2),
        ]
        for level in outcome["levels"]
    ]
    yield from table("concurrency_effective | tok_s | ttft_ms_p50 | accept_len", rows)


def _verify(outcome: dict[str, Any]) -> Iterator[str]:
    yield f"`specbench verify --budget quick` on it: **{outcome['verdict']}**.\n"
    rows = [[name, verdict] for name, verdict in outcome["claims"].items()]
    yield from table("claim | verdict", rows)


def page() -> str:
    """The page as Markdown. A product without outcomes says so."""
    parts = [HEAD.format(cores=os.cpu_count())]
    for product in get_args(Product):
        parts.append(f"## {NAMES[product]} {engines.VERSIONS[product]}\n")
        sections = {"run": _run, "load": _load, "verify": _verify}
        for what, section in sections.items():
            outcome = outcomes.last(product, what)  # type: ignore[arg-type]
            if outcome is None:
                parts.append(f"`specbench {what}`: not tried in the last run.\n")
            else:
                parts.extend(section(outcome))
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
