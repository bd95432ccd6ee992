"""Greedy answers that are equal on both arms: evidence of losslessness that a recording holds."""

from collections.abc import Iterator, Sequence

import pandas as pd


def equal_answers(
    requests: pd.DataFrame, cells: Sequence[tuple[pd.DataFrame, pd.DataFrame]]
) -> Iterator[str]:
    """Say how many greedy answers of the second arm are, byte for byte, answers of the first.

    `cells` are the trials of both sides of each matched cell. An answer counts where the first arm
    answered the same prompt at the same load. Nothing is said without hashes of the answers.
    """
    if "output_sha256" not in requests.columns:
        return
    counts = [_equal(requests, *sides) for sides in cells if _is_greedy(*sides)]
    asked = sum(asked for _, asked in counts)
    if asked:
        equal = sum(equal for equal, _ in counts)
        yield (
            f"{equal} of {asked} greedy answers are those of the other arm, byte for byte"
            + (": evidence of losslessness at temperature 0" if equal == asked else "")
        )


def _is_greedy(*sides: pd.DataFrame) -> bool:
    return all("temperature" in side and bool((side["temperature"] == 0).all()) for side in sides)


def _equal(requests: pd.DataFrame, a: pd.DataFrame, b: pd.DataFrame) -> tuple[int, int]:
    usable = (requests["phase"] == "measured") & (requests["status"] == "ok")
    good = requests[usable & requests["output_sha256"].notna()]
    first, second = (good[good["trial_id"].isin(side["trial_id"])] for side in (a, b))
    known = set(zip(first["prompt_id"], first["output_sha256"], strict=True))
    asked = second[second["prompt_id"].isin(first["prompt_id"])]
    answers = zip(asked["prompt_id"], asked["output_sha256"], strict=True)
    return sum(answer in known for answer in answers), len(asked)
