"""Drives a decoder over a fixed set of requests, as a scheduler would."""

from collections.abc import Iterable
from collections.abc import Sequence as Items

from specbench.engine.decoder import Decoder
from specbench.engine.lm import LanguageModel
from specbench.engine.noise import NoiseConfig
from specbench.engine.sampling import SamplingParams
from specbench.engine.sequence import KvCache, LogprobWish, Sequence
from specbench.engine.speculation import SpeculationConfig

QUESTIONS = (
    "How do I keep basil alive on a windowsill?",
    "Write a Python function that merges overlapping intervals and add tests.",
    "What is the capital of Mongolia? Answer with one word.",
    "A train travels 180 kilometres in 2 hours. How far does it travel in 5 hours?",
    "Wie bereite ich mich auf eine Prüfung vor?",
    "请用几句话解释为什么天空是蓝色的。",
    "Compare three ways to travel from Berlin to Paris in a table.",
    "Расскажи коротко, почему зимой холодно.",
    "Explain to a child how a bridge stays up.",
    "Write a SQL query for the ten customers with the highest revenue.",
)


def requests(
    language: LanguageModel,
    count: int,
    params: SamplingParams,
    logprobs: LogprobWish | None = None,
) -> list[Sequence]:
    """Return requests that ask the questions in turn, each time with another greeting."""
    chats = [
        language.tokenizer.chat(
            [{"role": "user", "content": f"{'Please. ' * (number // len(QUESTIONS))}{question}"}]
        )
        for number in range(count)
        for question in (QUESTIONS[number % len(QUESTIONS)],)
    ]
    return [Sequence(str(number), chat, params, logprobs) for number, chat in enumerate(chats)]


def drive(decoder: Decoder, sequences: Items[Sequence], concurrency: int = 8) -> None:
    """Run all sequences to their end, at most `concurrency` at a time."""
    waiting, running = list(sequences), list[Sequence]()
    while waiting or running:
        arrived = waiting[: concurrency - len(running)]
        del waiting[: len(arrived)]
        if arrived:
            decoder.prefill(arrived)
        running = [s for s in [*running, *arrived] if s.finish is None]
        if running:
            decoder.step(running)
        running = [s for s in running if s.finish is None]


def outputs(
    language: LanguageModel,
    spec: SpeculationConfig,
    *,
    faults: Iterable[str] = (),
    noise: NoiseConfig | None = None,
    params: SamplingParams | None = None,
    count: int = 12,
    concurrency: int = 8,
) -> list[list[int]]:
    """Return the outputs of a set of requests; the last ones reuse the cache of the first."""
    decoder = Decoder(language, spec, faults=faults, noise=noise, seed=5)
    greedy = params or SamplingParams(temperature=0.0, max_new_tokens=48)
    sequences = requests(language, count, greedy)
    drive(decoder, sequences, concurrency)
    again = requests(language, count // 2, greedy)
    for sequence, earlier in zip(again, sequences, strict=False):
        sequence.kv = prompt_cache(earlier)
    drive(decoder, again, concurrency)
    return [s.output_ids for s in (*sequences, *again)]


def prompt_cache(sequence: Sequence) -> KvCache:
    return sequence.kv.prefix(len(sequence.prompt_ids) - 1)
