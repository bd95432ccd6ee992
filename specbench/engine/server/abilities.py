"""What some servers cannot do, so that this engine can be one of them: `--without a,b`."""

from typing import Any

from specbench.engine.server.http import BadRequest
from specbench.engine.server.wire import typed

WITHOUT: dict[str, str] = {
    "logprobs": "No log-probabilities at all, neither of prompts nor of generated tokens.",
    "prompt_logprobs": "None of prompts; those of generated tokens are given.",
    "ids": "No token ids: neither taken as a prompt nor given in an answer.",
    "logit_bias": "No logit_bias.",
    "tokenize": "No /tokenize and no /detokenize.",
    "n": "One completion a request.",
    "flush": "The prefix cache cannot be emptied.",
    "counters": "No counters of verification in answers.",
}
"""The abilities that can be taken away, each with what is then missing."""

_PATHS = {
    "/tokenize": "tokenize",
    "/v1/tokenize": "tokenize",
    "/detokenize": "tokenize",
    "/v1/detokenize": "tokenize",
    "/flush_cache": "flush",
}
_SPECULATIVE = "spec_"


def read_without(text: str) -> frozenset[str]:
    """Return the abilities to take away. Raises ValueError for an unknown one."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(names - WITHOUT.keys()):
        known = ", ".join(WITHOUT)
        raise ValueError(f"--without: unknown ability {unknown[0]!r}, known are {known}")
    return names


def refuse(lacking: frozenset[str], path: str, body: dict[str, Any]) -> None:
    """Raise BadRequest where a body asks for what is lacking, in the words of servers that do."""
    if not lacking:
        return
    given = body.get("sampling_params") or body
    samplings = [s for s in (given if isinstance(given, list) else [given]) if isinstance(s, dict)]
    wants = bool(body.get("return_logprob")) or body.get("logprobs") not in (None, False)
    if wants and "logprobs" in lacking:
        raise BadRequest("Speculative decoding does not support return_logprob yet.")
    if "prompt_logprobs" in lacking and _scores_prompt(body, wants=wants):
        raise BadRequest("Log-probabilities of the prompt are not supported.")
    if "logit_bias" in lacking and any(s.get("logit_bias") for s in samplings):
        raise BadRequest("Speculative decoding does not support logit_bias yet.")
    if "n" in lacking and any(typed(s.get("n") or 1, int, "n") > 1 for s in samplings):
        raise BadRequest("n must be 1.")
    if "ids" in lacking and (body.get("input_ids") is not None or _gives_ids(path, body)):
        raise BadRequest("Prompts are text: token ids are not supported.")


def hidden_path(lacking: frozenset[str], path: str) -> bool:
    """Whether a path does not exist on a server without `lacking`."""
    return _PATHS.get(path) in lacking


def shown(lacking: frozenset[str], answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of /generate without what is lacking."""
    if "ids" in lacking:
        answer = {key: value for key, value in answer.items() if key != "output_ids"}
    if "counters" in lacking:
        meta = answer["meta_info"].items()
        answer = answer | {"meta_info": {k: v for k, v in meta if not k.startswith(_SPECULATIVE)}}
    return answer


def _scores_prompt(body: dict[str, Any], *, wants: bool) -> bool:
    start = body.get("logprob_start_len")
    return wants and (bool(body.get("echo")) or (isinstance(start, int) and start >= 0))


def _gives_ids(path: str, body: dict[str, Any]) -> bool:
    prompt = body.get("prompt")
    return path.startswith("/v1/") and isinstance(prompt, list) and not isinstance(prompt[0], str)
