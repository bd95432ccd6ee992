from specbench.analysis.compare import compare
from specbench.cli.show.compare import Shown, lines_of
from specbench.cli.show.compare_text import Screen
from specbench.workflows.compare import Compared
from tests.analysis.frames import Side, recording


def lines(*sides: Side, allow: tuple[str, ...] = ()) -> str:
    comparison = compare(*recording(*sides), sides[0].algorithm, sides[1].algorithm, allow=allow)
    return "\n".join(
        lines_of(
            Compared(
                recording="r", baseline=None, comparison=comparison, fail_if="speedup < 1",
                failed="no", exit_status=0,
            ),
            Shown(details=True),
            Screen(),
        )
    )  # fmt: skip


def test_the_verdict_stands_first_and_the_reason_beside_it() -> None:
    text = lines(Side("ar"), Side("dflash", accept_len=3.0))

    assert text.splitlines()[0] == "dflash against ar, tok_s: faster"
    assert "why: tok_s +" in text
    assert "detectable" in text
    assert "--fail-if 'speedup < 1': not met" in text


def test_what_was_allowed_is_never_left_out() -> None:
    eager = Side("dflash", accept_len=3.0, server={"disable_cuda_graph": True})

    text = lines(Side("ar"), eager, allow=("disable_cuda_graph",))

    assert "ALLOWED by you: server.disable_cuda_graph (not set / true)" in text


def test_a_doubt_is_the_reason_of_an_undecided_cell() -> None:
    text = lines(Side("ar"), Side("dflash", accept_len=3.0, flags="simulated_acceptance"))

    assert "inconclusive: simulated_acceptance: accept_len was an input, not a result" in text
    assert "best at concurrency=1 host=local: algorithm=ar" in text
