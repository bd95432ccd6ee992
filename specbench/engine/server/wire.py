"""Read the bodies of `/generate`: SGLang's field names, defaults and refusals."""

import dataclasses
import secrets
from collections.abc import Hashable
from typing import Any

import msgspec

from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import LogprobWish
from specbench.engine.server.http import BadRequest
from specbench.engine.server.request import Wish
from specbench.engine.tokenizer import Tokenizer

NUMBERS = {
    "max_new_tokens": int,
    "min_new_tokens": int,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "min_p": float,
    "frequency_penalty": float,
    "presence_penalty": float,
    "repetition_penalty": float,
    "sampling_seed": int,
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "stop_regex": (None, "", []),
    "json_schema": (None,),
    "regex": (None,),
    "ebnf": (None,),
    "structural_tag": (None,),
    "custom_params": (None, {}),
    "beam_width": (None, 0, 1),
    "watermark": (None,),
    "choice": (None,),
    "stream_interval": (None, 1),
}
SAMPLING_KEYS = (
    *NUMBERS, "stop", "stop_token_ids", "ignore_eos", "n", "no_stop_trim", "logit_bias",
    "skip_special_tokens", *NEUTRAL,
)  # fmt: skip


MAX_N = 256
MAX_BIAS = 1e9
MAX_SEED = 1 << 63
CHARACTERS_A_TOKEN = 64


@dataclasses.dataclass(frozen=True)
class Extras:
    """Sampling keys that concern the server alone."""

    stop: tuple[str, ...] = ()
    no_stop_trim: bool = False
    skip_special: bool = True
    n: int = 1


def read_json(body: bytes) -> dict[str, Any]:
    """Decode a JSON object. Raises BadRequest for anything else."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"Request body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest("Request body must be a JSON object.")
    return value


def typed(value: Any, kind: type, name: str) -> Any:
    """Convert a decoded JSON value. Raises BadRequest, naming the field, for another type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{name}: {error}") from error


def read_sampling(given: dict[str, Any], vocab_size: int) -> tuple[SamplingParams, Extras]:
    """Turn `sampling_params` into the engine's, and the keys that concern the server alone.

    Raises BadRequest for unknown keys (SGLang 0.5.23's words), wrong types, values out of range,
    and features the engine lacks.
    """
    for key in given:
        if key not in SAMPLING_KEYS:
            known = ", ".join(f"`{name}`" for name in SAMPLING_KEYS)
            raise BadRequest(f"unknown field `{key}`, expected one of {known}", plain=True)
    for key, allowed in NEUTRAL.items():
        if given.get(key) not in allowed:
            raise BadRequest(f"{key} is not supported by this engine.")
    fields = {
        name: typed(given[name], kind, name)
        for name, kind in NUMBERS.items()
        if given.get(name) is not None
    }
    stop = given.get("stop") or ()
    stops = tuple(typed([stop] if isinstance(stop, str) else stop, list[str], "stop"))
    tokens = tuple(typed(given.get("stop_token_ids") or [], list[int], "stop_token_ids"))
    bias = {
        _token(key): value
        for key, value in typed(given.get("logit_bias") or {}, dict[str, float], "bias").items()
    }
    params = SamplingParams(
        **fields,
        stop_token_ids=tokens,
        logit_bias=bias,
        ignore_eos=bool(given.get("ignore_eos", False)),
    )
    try:
        params.validate(vocab_size)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if any(abs(value) > MAX_BIAS for value in bias.values()):
        raise BadRequest(f"logit_bias must lie in [-{MAX_BIAS:g}, {MAX_BIAS:g}].")
    if not -MAX_SEED <= (params.sampling_seed or 0) < MAX_SEED:
        raise BadRequest("sampling_seed must fit into 64 bits.")
    count = typed(given.get("n") or 1, int, "n")
    if not 1 <= count <= MAX_N:
        raise BadRequest(f"n must be in [1, {MAX_N}].")
    skip = given.get("skip_special_tokens")
    extras = Extras(
        stop=tuple(stop for stop in stops if stop),
        no_stop_trim=bool(given.get("no_stop_trim", False)),
        skip_special=skip is None or bool(skip),
        n=count,
    )
    return params, extras


def _token(key: str) -> int:
    """Read a token id; a JSON object has only strings for keys."""
    try:
        return int(key)
    except ValueError as error:
        raise BadRequest(f"logit_bias: {key!r} is not a token id.") from error


class Reader:
    """Turn bodies into wishes, with the tokenizer and the limits of one server."""

    def __init__(
        self, tokenizer: Tokenizer, context_len: int, preferred: dict[str, Any] | None
    ) -> None:
        self.tokenizer = tokenizer
        self.context_len = context_len
        self.preferred = preferred or {}

    def generate(self, body: dict[str, Any]) -> tuple[list[Wish], bool]:
        """Read a `/generate` body: its wishes in order, and whether a list must be answered."""
        prompts, batched = self._prompts(body)
        wishes: list[Wish] = []
        many = batched
        for index, prompt in enumerate(prompts):
            given = pick(body.get("sampling_params"), index, batched) or {}
            sampling = self.preferred | typed(given, dict[str, Any], "sampling_params")
            params, extras = read_sampling(sampling, self.tokenizer.vocab_size)
            rid = pick(body.get("rid"), index, batched) or secrets.token_hex(16)
            wish = self._wish(body, index, batched, str(rid), prompt, params, extras)
            many = many or extras.n > 1
            if extras.n == 1:
                wishes.append(wish)
            else:
                wishes += [dataclasses.replace(wish, rid=f"{rid}_{k}") for k in range(extras.n)]
        return wishes, many

    def encode(self, text: str) -> list[int]:
        """Tokenise; a text that is hopelessly too long is refused before the work is done."""
        if len(text) > CHARACTERS_A_TOKEN * self.context_len:
            raise BadRequest(
                f"The input ({len(text)} characters) is longer than the model's context length "
                f"({self.context_len} tokens)."
            )
        return self.tokenizer.encode(text)

    def logprob_wish(self, top_n: Any, token_ids: Any) -> LogprobWish:
        """Check what logprobs are asked for beside those of the tokens themselves."""
        top = typed(top_n or 0, int, "top_logprobs_num")
        chosen = tuple(typed(token_ids or [], list[int], "token_ids_logprob"))
        size = self.tokenizer.vocab_size
        if not 0 <= top <= size or any(not 0 <= token < size for token in chosen):
            raise BadRequest(f"logprobs are asked for outside the vocabulary of {size} tokens.")
        return LogprobWish(top_n=top, token_ids=chosen)

    def _prompts(self, body: dict[str, Any]) -> tuple[list[list[int]], bool]:
        text, ids = body.get("text"), body.get("input_ids")
        if body.get("input_embeds") is not None:
            raise BadRequest("input_embeds is not supported by this engine.")
        if (text is None) == (ids is None):
            raise BadRequest("Either text, input_ids or input_embeds should be provided.")
        if text is not None:
            if isinstance(text, str):
                return [self.encode(text)], False
            return [self.encode(t) for t in typed(text, list[str], "text")], True
        if isinstance(ids, list) and ids and isinstance(ids[0], list):
            return typed(ids, list[list[int]], "input_ids"), True
        return [typed(ids, list[int], "input_ids")], False

    def _wish(
        self,
        body: dict[str, Any],
        index: int,
        batched: bool,
        rid: str,
        prompt: list[int],
        params: SamplingParams,
        extras: Extras,
    ) -> Wish:
        asked = pick(body.get("logprob_start_len"), index, batched)
        start = typed(-1 if asked is None else asked, int, "logprob_start_len")
        wanted = bool(pick(body.get("return_logprob"), index, batched))
        chosen = body.get("token_ids_logprob")
        if batched and isinstance(chosen, list) and chosen and isinstance(chosen[0], list):
            chosen = pick(chosen, index, batched)
        top = pick(body.get("top_logprobs_num"), index, batched)
        logprobs = self.logprob_wish(top, chosen) if wanted else None
        self.check_length(prompt, params)
        return Wish(
            rid=rid,
            prompt_ids=prompt,
            params=params,
            stop=extras.stop,
            no_stop_trim=extras.no_stop_trim,
            skip_special=extras.skip_special,
            stream=bool(body.get("stream", False)),
            namespace=namespace(body),
            logprobs=logprobs,
            logprob_start=start if wanted else -1,
        )

    def check_length(self, prompt: list[int], params: SamplingParams) -> None:
        """Raise BadRequest for an empty or foreign prompt, or one that leaves no room."""
        if not prompt:
            raise BadRequest("The prompt is empty.")
        size = self.tokenizer.vocab_size
        if min(prompt) < 0 or max(prompt) >= size:
            raise BadRequest(f"The input_ids contain values outside [0, {size}).")
        if len(prompt) >= self.context_len:
            raise BadRequest(
                f"The input ({len(prompt)} tokens) is longer than the model's context length "
                f"({self.context_len} tokens)."
            )
        total = len(prompt) + params.max_new_tokens
        if total > self.context_len:
            raise BadRequest(
                "Requested token count exceeds the model's maximum context length of "
                f"{self.context_len} tokens. You requested a total of {total} tokens: "
                f"{len(prompt)} tokens from the input and {params.max_new_tokens} tokens for the "
                "completion."
            )


def namespace(body: dict[str, Any]) -> Hashable:
    """Return the prefix cache's namespace: `cache_salt` and `extra_key` keep requests apart."""
    salt, key = body.get("cache_salt"), body.get("extra_key")
    return None if salt is None and key is None else (str(salt), str(key))


def pick(value: Any, index: int, batched: bool) -> Any:
    """Element of a per-request list in a batch; anything else holds for all."""
    if batched and isinstance(value, list):
        if index >= len(value):
            raise BadRequest("A per-request list is shorter than the batch.")
        return value[index]
    return value
