"""Dialogues to tokens, and which of them a model learns from.

Law: a token is learned from if the assistant said it, its end-of-turn included, in a message that
the dialogue trains; nothing else is. That needs no marks in the tokenizer's template, only that it
writes the beginning of a dialogue the same however it goes on; a template that does not is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from nki_agent.base.errors import UsageError

ASSISTANT = "assistant"
Messages = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A dialogue as a model reads it; `learned` has 1 for each token that it learns from."""

    ids: list[int]
    learned: list[int]


@contextmanager
def writing_as(template: Template, what: str) -> Iterator[None]:
    """The block writes something by a template, which is a program of the tokenizer's maker.

    Raises:
        UsageError: the template cannot.
    """
    try:
        yield
    except (TemplateError, TypeError, ValueError) as error:
        raise UsageError(
            f"the template of {template.name} cannot write {what}: {error}",
            hint="look at the roles and contents of its messages",
        ) from error


class Template:
    """A tokenizer's way to write dialogues."""

    def __init__(self, tokenizer: Any, *, name: str) -> None:
        """`name` is what messages call the tokenizer.

        Raises:
            UsageError: it has no template, or cannot say where its tokens lie in a text.
        """
        if tokenizer.chat_template is None:
            raise UsageError(
                f"the tokenizer of {name} has no chat template",
                hint="take an instruction-tuned model, or put a `chat_template.jinja` beside it",
            )
        if not tokenizer.is_fast:
            raise UsageError(
                f"the tokenizer of {name} is a slow one, which does not say where tokens lie",
                hint="a folder with `tokenizer.json` has a fast one",
            )
        self.tokenizer = tokenizer
        self.name = name

    def write(self, messages: Messages, tools: Sequence[Any] | None, *, ask: bool = False) -> str:
        """The dialogue as text; with `ask`, up to where the assistant's next message begins."""
        text: str = self.tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) if tools else None,
            tokenize=False,
            add_generation_prompt=ask,
        )
        return text

    def tokenize(
        self,
        messages: Messages,
        tools: Sequence[Any] | None = None,
        *,
        trained: Sequence[int] | None = None,
    ) -> Tokens:
        """Tokens of a dialogue; `trained` are the places of the messages to learn from, else all.

        Raises:
            UsageError: the template changes what was written when the dialogue goes on.
        """
        text = self.write(messages, tools)
        spans = [
            self._find_span(messages, tools, index=index, text=text)
            for index, message in enumerate(messages)
            if message["role"] == ASSISTANT and (trained is None or index in trained)
        ]
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        learned = [
            int(any(start <= first and last <= end for start, end in spans) and last > first)
            for first, last in encoded["offset_mapping"]
        ]
        return Tokens(ids=list(encoded["input_ids"]), learned=learned)

    def prompt_ids(self, messages: Messages, tools: Sequence[Any] | None) -> list[int]:
        """The tokens that the assistant's next message follows."""
        text = self.write(messages, tools, ask=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def answer_ids(self, answers: Messages) -> list[int]:
        """The tokens between an assistant's message, its end included, and its next one.

        `answers` are the tools' or the user's messages in between.
        """
        asked = [{"role": "user", "content": "x"}, {"role": ASSISTANT, "content": "y"}]
        before = self.write(asked, None)
        after = self.write([*asked, *answers], None, ask=True)
        end = before.rfind(self.tokenizer.eos_token) + len(self.tokenizer.eos_token)
        if end < len(self.tokenizer.eos_token) or not after.startswith(before[:end]):
            raise self._refuse("what the assistant said")
        return list(self.tokenizer(after[end:], add_special_tokens=False)["input_ids"])

    def _find_span(
        self, messages: Messages, tools: Sequence[Any] | None, *, index: int, text: str
    ) -> tuple[int, int]:
        """Where an assistant's message lies in the text, with its end-of-turn."""
        before = self.write(messages[:index], tools, ask=True)
        after = self.write(messages[: index + 1], tools)
        if not (text.startswith(after) and after.startswith(before)):
            raise self._refuse(f"message {index + 1}")
        # A newline behind the end-of-turn belongs to the template.
        end = after.rfind(self.tokenizer.eos_token)
        is_marked = end >= len(before)
        return len(before), end + len(self.tokenizer.eos_token) if is_marked else len(after)

    def _refuse(self, what: str) -> UsageError:
        return UsageError(
            f"the template of {self.name} writes {what} otherwise when the dialogue goes on",
            hint="such templates drop earlier thoughts; take the model's template without them",
        )
