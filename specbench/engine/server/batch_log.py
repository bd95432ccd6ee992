"""The scheduler's log lines, in SGLang's form."""

from collections.abc import Collection

from specbench.engine.server.log import logger
from specbench.engine.server.request import Request
from specbench.engine.server.statistics import Statistics


def log_prefill(
    batch: Collection[Request],
    tokens: tuple[int, int],
    usage: float,
    running: int,
    waiting: Collection[Request],
    rate: float,
) -> None:
    """Show one prefill batch: `tokens` are (computed, cached)."""
    logger.info(
        "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, "
        "#running-req: %d, #queue-req: %d, #pending-token: %d, cuda graph: False, "
        "input throughput (token/s): %.2f",
        len(batch), *tokens, usage, running, len(waiting),
        sum(request.prompt_tokens for request in waiting), rate,
    )  # fmt: skip


def log_decode(
    stats: Statistics, running: int, held: int, usage: float, waiting: int, *, graph: bool
) -> None:
    """Show the window that has just been closed."""
    accept = ""
    if stats.width > 1:
        accept = (
            f"accept len: {stats.last_accept_length:.2f}, "
            f"accept rate: {stats.last_accept_rate:.2f}, "
        )
    logger.info(
        "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %scuda graph: %s, "
        "gen throughput (token/s): %.2f, #queue-req: %d",
        running, held, usage, accept, graph, stats.gen_throughput, waiting,
    )  # fmt: skip


def log_retraction(retracted: int, ratio: float) -> None:
    """Show that requests went back to the queue for want of KV room."""
    logger.info(
        "KV cache pool is full. Retract requests. #retracted_reqs: %d, #new_token_ratio: "
        "%.4f -> %.4f", retracted, ratio, 1.0,
    )  # fmt: skip
