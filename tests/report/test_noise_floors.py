from pathlib import Path

import pytest

from specbench.analysis.noise_floor import NoiseFloor
from specbench.errors import RecordingError
from specbench.report.noise_floors import FILE, recall, remember
from specbench.stats.components import NOTHING, Part


def floor(host: str = "a", metric: str = "tok_s", pct: float = 1.0) -> NoiseFloor:
    return NoiseFloor(
        host=host, metric=metric, cells=1, launches=3, trials=6,
        launch=Part(pct=pct, low_pct=0.5, high_pct=6.3, df=2),
        trial=Part(pct=0.3, low_pct=0.0, high_pct=1.0, df=3), request=NOTHING, prompt=NOTHING,
        resolvable_pct=4.0, blocks=("b1", "b2"),
    )  # fmt: skip


def test_what_is_remembered_is_recalled_for_its_host_and_metric(tmp_path: Path) -> None:
    remember(tmp_path, "r1", [floor("a"), floor("b"), floor("a", "step_ms")])

    assert recall(tmp_path, hosts=["a"], metric="tok_s") == (floor("a"),)


def test_the_same_recording_replaces_its_own_floor_and_no_other(tmp_path: Path) -> None:
    remember(tmp_path, "r1", [floor(pct=1.0)])
    remember(tmp_path, "r2", [floor(pct=2.0)])

    remember(tmp_path, "r1", [floor(pct=3.0)])

    found = recall(tmp_path, hosts=["a"], metric="tok_s")
    assert [one.launch.pct for one in found] == [2.0, 3.0]


def test_an_empty_folder_knows_nothing(tmp_path: Path) -> None:
    assert recall(tmp_path, hosts=["a"], metric="tok_s") == ()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"floors": [{"host": 1}]}'])
def test_a_damaged_memory_is_said_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)

    with pytest.raises(RecordingError, match="damaged"):
        remember(tmp_path, "r1", [floor()])
    assert (tmp_path / FILE).read_bytes() == content


def test_a_folder_that_cannot_be_written_is_an_error_for_the_reader(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be stored"):
        remember(tmp_path / "missing", "r1", [floor()])


def test_launches_are_not_judged_by_their_own_scatter(tmp_path: Path) -> None:
    remember(tmp_path, "r1", [floor("a")])

    def known(recording: str, block: str) -> int:
        return len(
            recall(tmp_path, hosts=["a"], metric="tok_s", recording=recording, blocks=[block])
        )

    assert (known("r1", "b1"), known("r1", "b9"), known("r2", "b1")) == (0, 1, 1)


def test_floors_of_the_first_schema_are_still_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        """{"schema": 1, "floors": [{"recording": "r1", "floor": {"host": "a", "metric": "tok_s",
        "cells": 1, "launches": 3, "trials": 6, "restart_pct": 1.5, "restart_df": 2,
        "trial_pct": 0.3, "trial_df": 3, "resolvable_pct": 4.0}}]}"""
    )

    (found,) = recall(tmp_path, hosts=["a"], metric="tok_s")

    assert (found.launch.pct, found.launch.df) == (1.5, 2)
