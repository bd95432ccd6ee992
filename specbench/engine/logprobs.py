"""Log-probabilities as the server reports them: of the target's row, before any filter."""

import numpy as np

from specbench.engine.sampling import Row
from specbench.engine.sequence import LogprobWish, TokenLogprob


def token_logprob(row: Row, token: int, wish: LogprobWish, temperature: float) -> TokenLogprob:
    """Return log softmax(row / temperature) at `token`, at the best few and at those asked for."""
    scores = row.astype(np.float64) / temperature
    scores -= scores.max()
    scores -= np.log(np.exp(scores).sum())
    best = np.argsort(-scores, kind="stable")[: wish.top_n] if wish.top_n else ()
    return TokenLogprob(
        float(scores[token]),
        token,
        tuple((float(scores[other]), int(other)) for other in best),
        tuple((float(scores[other]), other) for other in wish.token_ids),
    )
