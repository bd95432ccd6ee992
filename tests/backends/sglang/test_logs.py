"""The log of every version tells how far a load is, and no line of it can upset the reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.backend import BatchLine, Notice, Ready
from specbench.backends.logs import split_lines
from specbench.backends.sglang.logs import LoadTracker, message_of, read_line
from specbench.model.service import LoadProgress

STAMP = "[2026-03-01 10:00:00] "


@pytest.mark.parametrize(
    ("line", "phase", "fraction"),
    [
        ("[2026-03-01 10:00:00] server_args=ServerArgs(x)", "starting", None),
        ("[2026-03-01 10:00:00 TP1] Init torch distributed begin.", "starting", None),
        ("[2026-03-01 10:00:00] Init parallel ends. elapsed=1.0 s", "starting", 1.0),
        ("[2026-03-01 10:00:00.123 DP0 TP3] Load weight begin. avail mem=78.3 GB", "weights", None),
        (
            "Loading safetensors checkpoint shards:  43% Completed | 26/60 [00:31<00:40, 1.19s/it]",
            "weights",
            26 / 60,
        ),
        ("Multi-thread loading shards:  50% | 5/10 [00:01<00:01]", "weights", 0.5),
        ("Loading pt checkpoint shards: 100% Completed | 1/1 [00:00<00:00]", "weights", 1.0),
        ("[2026-03-01 10:00:00] KV Cache is allocated. #tokens: 10", "kv_cache", None),
        ("[2026-03-01 10:00:00] Running FlashInfer autotune with cache: /x", "autotune", None),
        ("[2026-03-01 10:00:00] FlashInfer autotune completed.", "autotune", 1.0),
        ("[2026-03-01 10:00:00] Capture cuda graph begin. This can take", "graphs", None),
        (
            "[2026-03-01 10:00:00] Capture target verify CUDA graph begin. backend=fa3",
            "graphs",
            None,
        ),
        (
            "Capturing batches (bs=8 avail_mem=3.1 GB):  25%|##  | 3/12 [00:01<00:03]",
            "graphs",
            0.25,
        ),
        ("[2026-03-01 10:00:00] Capture draft cuda graph begin.", "draft", None),
        ("[2026-03-01 10:00:00] Capture draft extend CUDA graph end. elapsed=1", "draft", 1.0),
        ("[2026-03-01 10:00:00] max_total_num_tokens=10, chunked_prefill_size=8", "binding", None),
        ("INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C)", "warmup", None),
    ],
)
def test_milestones_of_all_versions_tell_the_phase(
    line: str, phase: str, fraction: float | None
) -> None:
    event = read_line(line)

    assert isinstance(event, LoadProgress)
    assert event.phase == phase
    assert event.fraction == pytest.approx(fraction)


def test_a_progress_bar_drawn_over_itself_gives_all_its_states() -> None:
    text = "".join(f"\rCapturing batches (bs=1):  {n}0%|#| {n}/10 [0:01<0:01]" for n in range(4))

    fractions = [e.fraction for e in map(read_line, split_lines(text)) if e]  # type: ignore[union-attr]  # all are progress

    assert fractions == [0.0, 0.1, 0.2, 0.3]


def test_the_second_load_of_a_rank_is_the_draft() -> None:
    tracker = LoadTracker()
    lines = [
        "[2026-03-01 10:00:00 TP0] Load weight begin.",
        "[2026-03-01 10:00:00 TP1] Load weight begin.",
        "[2026-03-01 10:00:01 TP0] Memory pool end. avail mem=1 GB",
        "[2026-03-01 10:00:01 TP1] Load weight end. elapsed=1 s",
        "[2026-03-01 10:00:02 TP0] Load weight begin.",
        "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00]",
    ]

    events = [tracker.read(line) for line in lines]

    phases = [event.phase for event in events if isinstance(event, LoadProgress)]
    assert phases == ["weights", "weights", "kv_cache", "weights", "draft", "draft"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "Max running requests is reset to 48 for speculative decoding.",
            "running_requests_capped",
        ),
        (
            (
                "DFLASH non-greedy verification is unavailable on this build/device; falling back "
                "to greedy argmax verification."
            ),
            "greedy_fallback",
        ),
        (
            (
                "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when "
                "speculative_eagle_topk == 1"
            ),
            "draft_tokens_adjusted",
        ),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 3, x", "retraction"),
    ],
)
def test_silent_changes_become_notices(line: str, name: str) -> None:
    assert read_line(STAMP + line) == Notice(name=name, text=line)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            (
                "Decode batch, #running-req: 8, #token: 100, token usage: 0.01, accept len: 2.35, "
                "accept rate: 0.34, cuda graph: True, gen throughput (token/s): 1234.50"
            ),
            {"#running-req": 8.0, "accept len": 2.35, "gen throughput (token/s)": 1234.5},
        ),
        ("Decode batch. #running-req: 1, #token: 9, #queue-req: 2", {"#queue-req": 2.0}),
        ("Decode batch [40], #running-req: 1, cpu graph: False", {"cpu graph": "False"}),
        ("Prefill batch, #new-seq: 2, #cached-token: 64, token usage: 0.00", {"#cached-token": 64}),
    ],
)
def test_batch_lines_are_read_as_pairs(line: str, values: dict[str, float | str]) -> None:
    event = read_line(STAMP + line)

    assert isinstance(event, BatchLine)
    assert event.values.items() >= values.items()


def test_ready_is_told_from_its_line() -> None:
    assert read_line(STAMP + "The server is fired up and ready to roll!") == Ready()


@given(st.text())
def test_no_line_upsets_the_reader(line: str) -> None:
    event = LoadTracker().read(line)

    assert event is None or read_line(line) is not None
    assert message_of(line)[1] == message_of(line)[1].strip()


@given(st.text(alphabet="\r\n ab"))
def test_splitting_loses_nothing_but_line_ends(text: str) -> None:
    assert "".join(split_lines(text)) == text.replace("\r", "").replace("\n", "")
