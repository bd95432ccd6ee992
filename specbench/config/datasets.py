"""Prompts: the ones that ship, JSON-lines files of the user, ShareGPT-style files."""

import json
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b, sha256
from importlib import resources
from pathlib import Path
from typing import Any, cast

import msgspec

from specbench.errors import InputError, InputErrors, nearest
from specbench.model.load import Dataset, Prompt, distinct, whole_passes
from specbench.model.matrix import Matrix

BUILTIN = "builtin:"
MIXED = "mixed"
LARGEST_FILE = 2**30
MOST_PROMPTS = 1_000_000
MOST_ERRORS = 20

_SOURCES = ("messages", "prompt", "text", "input_ids")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_SHARE_GPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}
_SHARE_GPT_ROLES |= {"chatgpt": "assistant", "bing": "assistant", "bard": "assistant"}
_SHARE_GPT_ROLES |= {"system": "system"}


def read_datasets(matrix: Matrix) -> dict[str, Dataset]:
    """Load every dataset that a matrix names; file names are relative to the matrix file.

    Raises:
        InputError: for the first dataset that cannot be read, at its place in the file.
    """
    base = Path(matrix.path).parent if matrix.path else Path()
    levels = matrix.factors.get("dataset") or (matrix.workload.dataset,)
    extra = [level for cell in matrix.include for level in cell.get("dataset", ())]
    names = dict.fromkeys(str(level) for level in (*levels, *extra))
    place = matrix.places.get("factors.dataset") or matrix.places.get("workload.dataset")
    loaded: dict[str, Dataset] = {}
    for name in names:
        try:
            loaded[name] = load_dataset(name, base)
        except InputErrors:
            raise
        except InputError as error:
            raise InputError(error.what, where=error.where or place, hint=error.hint) from error
    return loaded


def load_dataset(ref: str, base_dir: str | Path = ".") -> Dataset:
    """Load `builtin:mixed`, `builtin:<category>`, or a file; prompts in the file's order.

    A file is JSON lines, each with one of `messages` (chat), `prompt` (one user message), `text`
    (raw, for generate and completions) or `input_ids`, and optionally `prompt_id`, `category`,
    `max_tokens`; or one JSON list of ShareGPT conversations, of which everything before the last
    answer is the prompt.

    Raises:
        InputError: with file:line:column, and the nearest category that ships.
    """
    if ref.startswith(BUILTIN):
        prompts = _builtin(ref.removeprefix(BUILTIN))
    else:
        path = Path(base_dir, ref).expanduser()
        prompts = _from_file(path)
    return Dataset(name=ref, sha256=_content_hash(prompts), prompts=prompts)


class PromptSet(msgspec.Struct, frozen=True, kw_only=True):
    """What every trial of a workload asks: `requests` of `prompts`, in whole passes over them.

    `requests` is None where something else ends the trial. `warmup` are prompts that no measured
    request asks, where the dataset has any.
    """

    prompts: tuple[Prompt, ...]
    warmup: tuple[Prompt, ...]
    requests: int | None

    def in_order(self, seed: int) -> tuple[Prompt, ...]:
        """Give the prompts in the order of one trial: the set stays, whatever the seed."""
        return shuffle_prompts(self.prompts, seed)


def choose_prompts(
    prompts: Sequence[Prompt], requests: int | None, seed: int, *, tight: bool = False
) -> PromptSet:
    """Choose the one set of prompts of a workload, by its own seed and by nothing else.

    Fewer requests than prompts ask the first ones of one shuffle, so that a larger number asks the
    same and more. More are rounded up to whole passes: no prompt weighs more than another. A
    `tight` set leaves out the prompts that would make the passes longer than they need to be.
    """
    chosen = shuffle_prompts(prompts, seed)
    count = len(chosen) if requests is None else distinct(requests, len(chosen), tight=tight)
    return PromptSet(
        prompts=chosen[:count],
        warmup=chosen[count:],
        requests=None if requests is None else whole_passes(requests, count),
    )


def shuffle_prompts(prompts: Sequence[Prompt], seed: int) -> tuple[Prompt, ...]:
    """Return the prompts in the order that a seed means; the same on every machine."""

    def key(index: int) -> bytes:
        return blake2b(f"{seed}:{index}".encode(), digest_size=8).digest()

    return tuple(prompts[index] for index in sorted(range(len(prompts)), key=key))


def _content_hash(prompts: Sequence[Prompt]) -> str:
    content = sha256()
    for prompt in prompts:
        content.update(msgspec.json.encode(prompt, order="sorted") + b"\n")
    return content.hexdigest()


@cache
def _shipped() -> tuple[Prompt, ...]:
    folder = resources.files("specbench.data").joinpath("prompts")
    raw = folder.joinpath("mixed.jsonl").read_bytes()
    return _json_lines(raw, f"{BUILTIN}{MIXED}")


def builtin_categories() -> tuple[str, ...]:
    """Return the categories of the prompts that ship."""
    return tuple(sorted({prompt.category for prompt in _shipped()}))


def _builtin(category: str) -> tuple[Prompt, ...]:
    if category == MIXED:
        return _shipped()
    prompts = tuple(prompt for prompt in _shipped() if prompt.category == category)
    if not prompts:
        hint = nearest(category, (MIXED, *builtin_categories()), noun="categories")
        raise InputError(f"there is no dataset {BUILTIN}{category}", hint=hint)
    return prompts


def _from_file(path: Path) -> tuple[Prompt, ...]:
    shown = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError as error:
        hint = "a file beside the matrix, or builtin:mixed"
        raise InputError("no such dataset", where=shown, hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the dataset cannot be read: {reason}", where=shown) from error
    if len(raw) > LARGEST_FILE:
        raise InputError("the dataset is larger than 1 GiB", where=shown)
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    is_list = raw.lstrip()[:1] == b"["
    prompts = _conversations(raw, shown) if is_list else _json_lines(raw, shown)
    if not prompts:
        raise InputError("the dataset has no prompts", where=shown)
    return prompts


def _json_lines(raw: bytes, shown: str) -> tuple[Prompt, ...]:
    prompts: list[Prompt] = []
    errors: list[InputError] = []
    ids: dict[str, str] = {}
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            prompt = _prompt(_object(line, shown, number), f"{number}")
            _refuse_twice(prompt.prompt_id, ids, f"line {number}")
            prompts.append(prompt)
        except InputError as error:
            errors.append(
                InputError(error.what, where=error.where or f"{shown}:{number}", hint=error.hint)
            )
        if len(errors) >= MOST_ERRORS or len(prompts) > MOST_PROMPTS:
            break
    if len(prompts) > MOST_PROMPTS:
        errors.append(InputError(f"more than {MOST_PROMPTS:,} prompts", where=shown))
    _raise(errors)
    return tuple(prompts)


def _refuse_twice(prompt_id: str, seen: dict[str, str], place: str) -> None:
    """Refuse an id that two prompts share: pairing by prompt would mix them up."""
    if prompt_id in seen:
        raise InputError(f"prompt_id {prompt_id!r:.60} is also on {seen[prompt_id]}")
    seen[prompt_id] = place


def _raise(errors: Sequence[InputError]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise InputErrors(errors)


def _object(line: bytes, shown: str, number: int) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        where = f"{shown}:{number}:{error.start + 1}"
        raise InputError(f"byte 0x{line[error.start]:02x} is not UTF-8", where=where) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg}", where=f"{shown}:{number}:{error.colno}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InputError("not JSON: nested too deeply, or a number too long") from error


def _prompt(entry: Any, fallback_id: str) -> Prompt:
    """Decode one prompt; unknown keys are the user's own and stay unread."""
    if not isinstance(entry, dict):
        raise InputError("a prompt must be a JSON object")
    sources = [name for name in _SOURCES if entry.get(name) is not None]
    if len(sources) != 1:
        if not sources and "conversations" in entry:
            return _conversation(entry, fallback_id)
        found = " and ".join(sources) if sources else "none of them"
        raise InputError(f"one of {', '.join(_SOURCES)} is needed; there is {found}")
    fields = {
        "prompt_id": str(entry.get("prompt_id", entry.get("id", fallback_id))),
        "category": entry.get("category", ""),
        "max_tokens": entry.get("max_tokens"),
    }
    value = entry[sources[0]]
    match sources[0]:
        case "prompt":
            fields["messages"] = [{"role": "user", "content": value}]
        case name:
            fields[name] = value
    return _checked(fields)


def _checked(fields: dict[str, Any]) -> Prompt:
    try:
        prompt = msgspec.convert(fields, Prompt)
    except msgspec.ValidationError as error:
        raise InputError(str(error).replace("`", "")) from error
    if not (prompt.messages or prompt.text or prompt.input_ids):
        raise InputError("the prompt is empty")
    for message in prompt.messages:
        if set(message) != {"role", "content"} or message["role"] not in _ROLES:
            raise InputError("a message has a role (system, user, assistant) and a content")
    if any(not 0 <= token < 2**31 for token in prompt.input_ids):
        raise InputError("input_ids holds a number that is no token id")
    if prompt.max_tokens is not None and prompt.max_tokens < 1:
        raise InputError("max_tokens must be at least 1")
    texts = [prompt.text or "", *(message["content"] for message in prompt.messages)]
    if any("\ud800" <= char <= "\udfff" for text in texts for char in text):
        raise InputError("the text holds half of a surrogate pair, which is not UTF-8")
    return prompt


def _conversations(raw: bytes, shown: str) -> tuple[Prompt, ...]:
    try:
        entries = json.loads(raw)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", where=f"{shown}:{line}") from error
    except json.JSONDecodeError as error:
        where = f"{shown}:{error.lineno}:{error.colno}"
        raise InputError(f"not JSON: {error.msg}", where=where) from error
    except (RecursionError, ValueError) as error:
        raise InputError(
            "not JSON: nested too deeply, or a number too long", where=shown
        ) from error
    prompts: list[Prompt] = []
    errors: list[InputError] = []
    ids: dict[str, str] = {}
    for index, entry in enumerate(cast("list[Any]", entries), start=1):
        try:
            prompt = _prompt(entry, str(index))
            _refuse_twice(prompt.prompt_id, ids, f"entry {index}")
            prompts.append(prompt)
        except InputError as error:
            errors.append(InputError(error.what, where=f"{shown}, entry {index}", hint=error.hint))
        if len(errors) >= MOST_ERRORS:
            break
    _raise(errors)
    return tuple(prompts)


def _conversation(entry: dict[str, Any], fallback_id: str) -> Prompt:
    """Take everything before the last answer of a ShareGPT conversation."""
    turns = entry["conversations"]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise InputError("conversations must be a list of turns")
    messages = []
    for turn in turns:
        role = _SHARE_GPT_ROLES.get(str(turn.get("from", turn.get("role"))))
        content = turn.get("value", turn.get("content"))
        if role is None or not isinstance(content, str):
            raise InputError("a turn needs from (human, gpt, system) and value")
        messages.append({"role": role, "content": content})
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    if not messages:
        raise InputError("the conversation has no question")
    return _checked(
        {
            "prompt_id": str(entry.get("id", fallback_id)),
            "category": entry.get("category", ""),
            "messages": messages,
        }
    )
