"""Recordings to damage, and the ways to damage them: every file, in every way that JSON allows."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from specbench.model.block_facts import BlockFacts
from specbench.recording import Recording, Writer
from specbench.recording.entries import BlockBegun, BlockLost, BlockUp, Planned, RunBegun, RunEnded
from specbench.workflows.tables import write_tables

KEPT = Path(__file__).parents[1] / "tests/fixtures/recordings/schema-1-before-codes"

ODD: tuple[Any, ...] = (None, "text", -1, 10**30, [], {}, True, 0.5, [[]], "\x1b[31m")
GPU = "unix_s,gpu,util_pct,mem_used_mib,power_w,temp_c,sm_mhz,throttle\n"


class Mutation(NamedTuple):
    """One way to damage a recording; `path` is what is damaged, relative to it."""

    kind: str
    path: str
    do: Callable[[Path], None]


def recording_of_today(results: Path) -> Path:
    """Write the kept recording anew: the same trials, twice each, with all that a run leaves."""
    kept = Recording(KEPT)
    manifest = msgspec.structs.replace(kept.manifest, host_facts={})
    with Writer.create(results, manifest, "0" * 8) as writer:
        writer.note(RunBegun(specbench="0"))
        writer.note(Planned(trials=3))
        for block_id, facts in kept.blocks.items():
            _write_block(writer, block_id, facts)
        writer.describe_host("local", kept.manifest.host_facts["local"])
        for sealed in kept.sealed:
            shutil.copy(
                kept.paths.trial(sealed.trial.trial_id) / "requests.jsonl",
                writer.draft(sealed.trial.trial_id) / "requests.jsonl",
            )
            writer.seal(sealed)
        for verdict in kept.verdicts:
            writer.write_verdict(verdict.trial_id, verdict)
        writer.note(BlockLost(block_id="lost", pattern="cuda_oom", cause="out of memory"))
        writer.note(RunEnded(measured=3))
        writer.heartbeat({"running": False, "trials": 3, "measured": 3})
        write_tables(writer)
        return writer.paths.root


def _write_block(writer: Writer, block_id: str, facts: BlockFacts) -> None:
    writer.note(BlockBegun(block_id=block_id))
    folder = writer.open_block(block_id)
    for file in (KEPT / "blocks" / block_id).iterdir():
        if file.name != "facts.json":
            shutil.copy(file, folder / file.name)
    (folder / "gpu.csv").write_text(GPU + "1764547731.5,0,50,1024,300,60,1500,0\n" * 3)
    (folder / "server.log").write_text("INFO loading\nINFO ready\n" * 5)
    writer.write_block_facts(block_id, facts)
    writer.note(BlockUp(block_id=block_id, load_s=3.0))
    writer.note_block_files(block_id)


def kept_as_it_is(results: Path) -> Path:
    """Copy the recording of before there were hashes, under a name as a run gives it."""
    root = results / "20261201T000843062000Z-kept-00000000"
    shutil.copytree(KEPT, root)
    return root


def mutations(root: Path, dice: random.Random) -> Iterator[Mutation]:
    """Yield mutations of a recording without end, each kind of each file in turn."""
    files = sorted(file for file in root.rglob("*") if file.is_file())
    while True:
        for file in dice.sample(files, len(files)):
            name = str(file.relative_to(root))
            for kind, change in _changes(file.read_bytes(), dice):
                yield Mutation(kind, name, _rewriting(name, change))
            yield Mutation("removed", name, _removing(name))
            yield Mutation("replaced by a folder", name, _foldering(name))
        yield from _of_folders(root, dice)


def _changes(content: bytes, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield what a file could hold instead."""
    yield "emptied", b""
    for share in (0.1, 0.5, 0.9):
        yield "cut", content[: int(len(content) * share)]
    yield "cut by a byte", content[:-1]
    yield "not UTF-8", _inserted(content, b"\xff\xfe\x80", dice)
    yield "nested deeply", b"[" * 200_000 + b"]" * 200_000
    yield "text after its end", content + b'{"more":'
    yield "another document", dice.choice([b"null", b"[]", b"7", b'"text"', b"{}", b"\0" * 64])
    for _ in range(3):
        yield "a byte changed", _with_byte(content, dice, range(256))
    for _ in range(3):
        yield "a digit changed", _with_digit(content, dice)
    yield from _lines(content, dice)
    yield from _typed(content, dice)


def _inserted(content: bytes, what: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(content) + 1)
    return content[:at] + what + content[at:]


def _with_byte(content: bytes, dice: random.Random, among: range) -> bytes:
    if not content:
        return bytes([dice.choice(among)])
    at = dice.randrange(len(content))
    return content[:at] + bytes([dice.choice(among)]) + content[at + 1 :]


def _with_digit(content: bytes, dice: random.Random) -> bytes:
    """Change one digit: the file stays what it is and says something else."""
    places = [at for at, byte in enumerate(content) if byte in b"123456789"]
    if not places:
        return content + b"1"
    at = dice.choice(places)
    other = dice.choice([digit for digit in b"123456789" if digit != content[at]])
    return content[:at] + bytes([other]) + content[at + 1 :]


def _lines(content: bytes, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    lines = content.splitlines(keepends=True)
    if len(lines) < 2:
        return
    at = dice.randrange(len(lines))
    yield "a line twice", b"".join([*lines[: at + 1], *lines[at:]])
    yield "a line taken", b"".join(lines[:at] + lines[at + 1 :])
    yield "the last line taken", b"".join(lines[:-1])
    yield "lines swapped", b"".join([*lines[:at], *reversed(lines[at:])])


def _typed(content: bytes, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Give JSON other types, huge integers and fewer fields, in one place each."""
    lines = content.splitlines() if content.count(b"}\n{") else [content]
    at = dice.randrange(len(lines)) if lines else 0
    for kind in ("typed wrong", "typed wrong", "typed wrong", "a huge integer", "a field taken"):
        try:
            document = json.loads(lines[at])
        except (ValueError, IndexError):
            return
        if not isinstance(document, dict) or not document:
            return
        _change_value(document, kind, dice)
        text = json.dumps(document).replace(
            '"HUGE"', "9" * 5000 if dice.random() < 0.5 else "9" * 25
        )
        yield kind, b"\n".join([*lines[:at], text.encode(), *lines[at + 1 :]]) + b"\n"


def _change_value(document: dict[str, Any], kind: str, dice: random.Random) -> None:
    place: Any = document
    while True:
        key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.3:
            break
        place = inner
    if kind == "a field taken":
        del place[key]
    else:
        place[key] = "HUGE" if kind == "a huge integer" else dice.choice(ODD)


def _rewriting(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda root: _write(root / name, content)


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _removing(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def _foldering(name: str) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        (root / name).unlink()
        (root / name).mkdir()

    return do


def _of_folders(root: Path, dice: random.Random) -> Iterator[Mutation]:
    """Take, double and swap whole folders."""
    trials = sorted(each.name for each in (root / "trials").iterdir() if each.is_dir())
    for folder in (*(f"trials/{name}" for name in trials), "trials", "blocks", "verdicts"):
        yield Mutation("folder removed", folder, _tree_removing(folder))
    one, other = dice.sample(trials, 2)
    copy = f"trials/{one[:-1]}_"
    yield Mutation("folder doubled", copy, lambda r: _copy(r / "trials" / one, r / copy))
    yield Mutation("folders swapped", f"trials/{one}", lambda r: _swap(r / "trials", one, other))


def _tree_removing(name: str) -> Callable[[Path], None]:
    return lambda root: shutil.rmtree(root / name)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


def _swap(folder: Path, one: str, other: str) -> None:
    (folder / one).rename(folder / "aside")
    (folder / other).rename(folder / one)
    (folder / "aside").rename(folder / other)
