"""Find out which tool wrote a file or folder, and read its rows."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from specbench.errors import InputError
from specbench.interchange.formats import (
    aiperf,
    genai_bench,
    guidellm,
    inference_perf,
    inferencex,
    llamacpp,
    llmd,
    sglang,
    specdec_bench,
    vllm,
)
from specbench.interchange.reading import documents_of
from specbench.interchange.rows import ImportedRow

Rows = Callable[[Any, str], list[ImportedRow]]

FORMATS: tuple[tuple[str, Callable[[Any], bool], Rows], ...] = (
    ("AIPerf summary", aiperf.is_mine, aiperf.rows),
    ("vLLM bench", vllm.is_mine, vllm.rows),
    ("SGLang bench", sglang.is_mine, sglang.rows),
    ("guidellm", guidellm.is_mine, guidellm.rows),
    ("genai-bench", genai_bench.is_mine, genai_bench.rows),
    ("inference-perf", inference_perf.is_mine, inference_perf.rows),
    ("InferenceX row", inferencex.is_mine, inferencex.rows),
    ("InferenceX golden acceptance", inferencex.is_golden, inferencex.golden_rows),
    ("specdec_bench", specdec_bench.is_mine, specdec_bench.rows),
    ("llama.cpp speed-bench", llamacpp.is_mine, llamacpp.rows),
    ("llm-d Benchmark Report", llmd.is_mine, llmd.rows),
)
SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


def import_all(paths: Iterable[Path]) -> list[ImportedRow]:
    """Read files and folders. Raises InputError, which names the file and what is wrong."""
    found = [row for path in paths for row in _of(path)]
    if not found:
        raise InputError("there is no row in these files", hint="has the tool finished its run?")
    return found


def _of(path: Path) -> list[ImportedRow]:
    if not path.is_dir():
        return import_file(path)
    inside = [one for one in sorted(path.rglob("*")) if one.suffix in SUFFIXES and one.is_file()]
    results = [one for one in inside if _looks_like_a_result(one)]
    if not results:
        raise InputError(
            "the folder holds no result of a known tool", where=str(path), hint=_known()
        )
    return [row for one in results for row in import_file(one)]


def _looks_like_a_result(path: Path) -> bool:
    """Whether a file of a folder is to be read: others lie beside results, damaged ones do not."""
    if path.name.endswith(".failure.json") or path.name in ("summary.json", "configuration.json"):
        return False
    try:
        documents = documents_of(path)
    except InputError:
        return True
    return any(_reader(one) is not None or aiperf.is_record(one) for one in _flat(documents))


def import_file(path: Path) -> list[ImportedRow]:
    """Read one file. Raises InputError."""
    documents = _flat(documents_of(path))
    if documents and all(aiperf.is_record(one) for one in documents):
        return aiperf.rows_of_records(documents, str(path))
    found: list[ImportedRow] = []
    for number, document in enumerate(documents, 1):
        where = str(path) if len(documents) == 1 else f"{path}:{number}"
        reader = _reader(document)
        if reader is None:
            raise InputError("this is the result of no known tool", where=where, hint=_known())
        found += _with_configuration(document, path) or reader(document, where)
    return found


def _with_configuration(document: Any, path: Path) -> list[ImportedRow]:
    beside = path.with_name("configuration.json")
    if not specdec_bench.is_mine(document) or not beside.exists():
        return []
    return specdec_bench.rows(document, str(path), documents_of(beside)[0])


def _reader(document: Any) -> Rows | None:
    return next((rows for _, is_mine, rows in FORMATS if is_mine(document)), None)


def _flat(documents: list[Any]) -> list[Any]:
    """Take the items of a document that is one list."""
    if len(documents) == 1 and isinstance(documents[0], list):
        return documents[0]
    return documents


def _known() -> str:
    return f"known: {', '.join(name for name, _, _ in FORMATS)}"
