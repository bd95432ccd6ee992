"""A product's name, and its own words for things, stand in the rooms of products alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "specbench"
ROOMS = ("backends", "engine", "data", "interchange")
"""`interchange` holds the file formats of other programs; some of them come with a product."""
PRODUCTS = re.compile(r"sglang|vllm|llama", re.IGNORECASE)

RAW = re.compile(
    r"\b(?:internal_states|avg_spec_accept_length|last_gen_throughput|specbench_engine"
    r"|speculative_(?:algorithm|eagle_topk|num_steps|num_draft_tokens|draft_model_path)"
    r"|speculative_accept_threshold\w*|disable_(?:cuda_graph|decode_cuda_graph|overlap_schedule"
    r"|radix_cache)|meta_info|kv_transfer_config|speculative_config|max_num_seqs|total_slots"
    r"|decode_log_interval|draft_n(?:_accepted)?|timings|owned_by)\b"
)
"""Keys of the products' own answers, flags and replies; typed facts have them by other names."""

ALLOWED = {
    "workflows/exported.py": "the names of file formats, as a user gives them",
}


def _docstrings(tree: ast.AST) -> set[int]:
    """Give the ids of the constants that document something."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _words(source: str) -> Iterator[tuple[int, str]]:
    """Give every identifier and every text of code with its line; no docstring, no comment."""
    tree = ast.parse(source)
    documentation = _docstrings(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                yield node.lineno, text
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield getattr(node, "lineno", 0), name
            case ast.ImportFrom(module=str(name)) | ast.alias(name=name):
                yield getattr(node, "lineno", 0), name
            case _:
                pass


def told(source: str) -> list[tuple[int, str]]:
    """List what in a module's code only a product's own room should know."""
    return [
        (line, word) for line, word in _words(source) if PRODUCTS.search(word) or RAW.search(word)
    ]


def modules() -> list[Path]:
    found = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    return sorted(path for path in found if path.parts[0] not in ROOMS)


def test_no_code_outside_the_rooms_of_products_knows_one() -> None:
    found = {
        f"{path}:{line}: {word[:60]}"
        for path in modules()
        if str(path) not in ALLOWED
        for line, word in told((PACKAGE / path).read_text(encoding="utf-8"))
    }

    assert found == set()


@pytest.mark.parametrize("path", ALLOWED)
def test_what_is_allowed_is_still_needed(path: str) -> None:
    assert told((PACKAGE / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        'if engine == "vllm": pass',
        'x = info["speculative_algorithm"]',
        "class SglangThing: pass",
        "from specbench.backends.llamacpp import native",
        'VOLATILE = ("server.internal_states.*",)',
    ],
)
def test_what_code_knows_of_a_product_would_be_seen(source: str) -> None:
    assert told(source)


def test_documentation_may_name_a_product() -> None:
    assert told('"""SGLang does so."""\n# vLLM too\n') == []
