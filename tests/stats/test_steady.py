import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.steady import share_by_ends, share_by_stamps, window_ends


def test_the_window_ends_with_the_first_end_after_the_last_send() -> None:
    trial = np.zeros(4, dtype=np.int64)
    sent = np.array([0.0, 0.0, 5.0, 6.0])
    ended = np.array([5.0, 6.0, 20.0, 9.0])

    start, close = window_ends(trial, sent, ended, 1)

    assert (start[0], close[0]) == (0.0, 9.0)


def test_a_trial_that_shows_no_end_has_no_window() -> None:
    start, close = window_ends(np.zeros(1, dtype=np.int64), np.zeros(1), np.array([np.nan]), 1)

    assert np.isnan(start[0])
    assert np.isnan(close[0])


def test_a_step_that_the_cut_goes_through_counts_in_part() -> None:
    share = share_by_stamps(15.0, 0.0, [10.0, 20.0], [2, 4])

    assert share == pytest.approx((2 + 2) / 6)


def test_without_counts_the_stamps_say_nothing() -> None:
    assert share_by_stamps(15.0, 0.0, [10.0], []) is None
    assert share_by_stamps(15.0, 0.0, [], []) is None


@given(st.floats(0, 100), st.integers(2, 50))
def test_even_stamps_and_even_spreading_agree(cut: float, chunks: int) -> None:
    stamps = np.linspace(1.0, 99.0, chunks)
    tokens = np.ones(chunks)

    by_stamps = share_by_stamps(cut, 0.0, stamps.tolist(), tokens.tolist())
    by_ends = share_by_ends(
        np.array([cut]), np.array([1.0]), np.array([99.0]), np.array([float(chunks)]), np.ones(1)
    )[0]

    assert by_stamps == pytest.approx(by_ends, abs=1.01 / chunks)
