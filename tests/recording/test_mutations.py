"""Every file of a recording damaged in every way: never a traceback, never another answer unsaid.

`python -m benchmarks.mutations` asks the commands themselves, a thousand times.
"""

import random
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.damaged import kept_as_it_is, mutations, recording_of_today
from specbench.errors import RecordingError
from specbench.recording import Recording
from specbench.recording.entries import BlockLost

MUTATIONS = 150


def answers(root: Path) -> Any:
    """Everything that a reader takes from a recording."""
    recording = Recording(root)
    return (
        recording.manifest,
        recording.trials.to_csv(),
        recording.requests.to_csv(),
        recording.blocks,
        recording.verdicts,
        [entry for entry in recording.journal if isinstance(entry, BlockLost)],
    )


def damage_of(root: Path) -> list[str]:
    return [str(one) for one in Recording(root).damage]


def test_an_answer_that_changes_names_the_file(tmp_path: Path) -> None:
    whole = recording_of_today(tmp_path / "whole")
    before = answers(whole)
    root = tmp_path / whole.name

    unsaid = []
    for mutation in islice(mutations(whole, random.Random(1)), MUTATIONS):
        shutil.copytree(whole, root)
        mutation.do(root)
        try:
            same, said = answers(root) == before, "\n".join(damage_of(root))
        except RecordingError as error:
            same, said = False, str(error)
        if not same and mutation.path not in said:
            unsaid.append(f"{mutation.kind}: {mutation.path}: {said}")
        shutil.rmtree(root)

    assert unsaid == []


def test_a_recording_without_hashes_never_ends_in_a_traceback(tmp_path: Path) -> None:
    whole = kept_as_it_is(tmp_path / "whole")
    root = tmp_path / whole.name

    read = 0
    for mutation in islice(mutations(whole, random.Random(3)), MUTATIONS):
        shutil.copytree(whole, root)
        mutation.do(root)
        try:
            answers(root)
            read += 1
        except RecordingError as error:
            assert error.where  # noqa: PT017 - either is right, and this is what an error owes
        shutil.rmtree(root)

    assert read > MUTATIONS / 2
