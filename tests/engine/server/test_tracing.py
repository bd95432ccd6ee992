"""A trace tells what happens, in the server's terms."""

import re

import pytest

from specbench.engine.server.tracing import trace_lines


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rounds_and_their_accepted_drafts_add_up_to_accept_len(temperature: float) -> None:
    flags = "--speculative-algorithm DDTREE --speculative-ddtree-budget 6 --random-seed 7"

    told = "\n".join(trace_lines("The sea is", flags, temperature, 30))

    accepted = [int(n) for n in re.findall(r"^round \d+: (\d+) of 6 drafts", told, re.MULTILINE)]
    pooled = f"1 + {sum(accepted)} accepted drafts / {len(accepted)} verify steps"
    assert pooled in told
    assert len(re.findall(r"^  \* ", told, re.MULTILINE)) == sum(accepted) + len(accepted)


def test_plain_decoding_has_no_rounds() -> None:
    lines = list(trace_lines("The sea", "", 0.0, 3))

    assert not any(line.startswith("round") for line in lines)
    assert lines[-1] == "accept_len: 1.00, 3 tokens one by one"
