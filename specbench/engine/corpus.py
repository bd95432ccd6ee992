"""The text the language model is trained on: conversations that ship with the package."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from specbench.engine.tokenizer import Tokenizer

_BETWEEN_DOCUMENTS = "\n=====\n"
_BETWEEN_TURNS = "\n-----\n"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A question and its answer."""

    question: str
    answer: str


def read_corpus() -> tuple[Conversation, ...]:
    """Return all conversations, in the order of the files' names."""
    return tuple(_conversations())


def corpus_texts(corpus: tuple[Conversation, ...]) -> Iterator[str]:
    """Return the plain texts, for learning the tokenizer."""
    for conversation in corpus:
        yield conversation.question
        yield conversation.answer


def training_ids(tokenizer: Tokenizer, conversation: Conversation) -> list[int]:
    """Return the tokens of a conversation exactly as the server would see and emit them."""
    prompt = tokenizer.chat([{"role": "user", "content": conversation.question}])
    return [*prompt, *tokenizer.encode(conversation.answer), tokenizer.eos_id]


def _conversations() -> Iterator[Conversation]:
    folder = files("specbench.engine") / "corpus"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".txt"):
            continue
        for document in file.read_text(encoding="utf-8").strip().split(_BETWEEN_DOCUMENTS):
            question, answer = document.strip().split(_BETWEEN_TURNS)
            yield Conversation(question.strip(), answer.strip())
