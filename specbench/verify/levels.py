"""How strong the evidence can be, by what a server lets anybody ask, and what each lack costs."""

from __future__ import annotations

from typing import Literal

Level = Literal["scores", "one_token_scores", "draws", "text"]

ABILITIES = {
    "ids": "token ids of prompts and of answers",
    "tokenise": "the ids of a text",
    "score": "log-probabilities of a prompt",
    "next_scores": "the likeliest next tokens of a one-token request",
    "logprobs": "log-probabilities of generated tokens",
    "logit_bias": "a bias on chosen tokens",
    "n": "several completions a request",
    "flush": "an empty prefix cache on demand",
}
"""What is tried once a server; nothing is assumed."""

LEVELS: dict[Level, str] = {
    "scores": "every token is judged by the target's own log-probabilities",
    "one_token_scores": "every token is judged by the scores of a one-token request at its context",
    "draws": "no scores: verified draws are compared with plain draws at the same contexts",
    "text": "no token ids: only what a text can show",
}

_COSTS = {
    "score": "a one-token request for every judged token: half the tokens for the same precision",
    "next_scores": "draws in place of scores: 3.5 times the tokens for the same precision",
    "logit_bias": "forced tokens and penalties are not tested; margins come from the odds of draws",
    "logprobs": "what the server reports as log-probabilities is not tested",
    "n": "one request a draw: more requests, as many tokens",
    "flush": "probes may read KV that verification wrote, and agree with its fault",
    "tokenise": "prompts are token ids that the server generated itself",
}


def level_of(abilities: frozenset[str]) -> Level:
    """Return the strongest level that the abilities allow."""
    if "ids" not in abilities:
        return "text"
    if "score" in abilities:
        return "scores"
    return "one_token_scores" if "next_scores" in abilities else "draws"


def costs(abilities: frozenset[str]) -> list[str]:
    """Say for each ability that is missing what that costs."""
    if "ids" not in abilities:
        return [
            f"without {ABILITIES['ids']}: no context can be asked for again: texts alone are tested"
        ]
    scored = bool(abilities & {"score", "next_scores"})
    return [
        f"without {ABILITIES[name]}: {text}"
        for name, text in _COSTS.items()
        if name not in abilities
        and not (name == "next_scores" and "score" in abilities)
        and not (name == "score" and not scored)
    ]
