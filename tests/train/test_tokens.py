"""Dialogues to tokens: what is learned from, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.train.tokens import Template
from tests.train.tiny import make_tokenizer

KERNEL = "import nki\n\n@nki.jit\ndef kernel(x):\n    return x  # </tool_call>\n"
CALL = {"type": "function", "function": {"name": "verify_kernel", "arguments": {"source": KERNEL}}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "verify_kernel",
            "description": "Judges a kernel.",
            "parameters": {"type": "object", "properties": {"source": {"type": "string"}}},
        },
    }
]
DIALOGUE: list[dict[str, Any]] = [
    {"role": "system", "content": "You write kernels."},
    {"role": "user", "content": "Write relu."},
    {"role": "assistant", "content": "First a draft.", "tool_calls": [CALL]},
    {"role": "tool", "content": "wrong: the tail is missing"},
    {"role": "assistant", "content": "The tail too.", "tool_calls": [CALL]},
    {"role": "tool", "content": "right"},
    {"role": "assistant", "content": "Done."},
]


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(make_tokenizer([KERNEL, str(DIALOGUE), str(TOOLS)] * 3), name="tiny")


def learned_text(template: Template, trained: list[int] | None = None) -> str:
    tokens = template.tokenize(DIALOGUE, TOOLS, trained=trained)
    kept = [i for i, learned in zip(tokens.ids, tokens.learned, strict=True) if learned]
    text: str = template.tokenizer.decode(kept)
    return text


def test_only_what_the_assistant_says_is_learned_with_its_ends(template: Template) -> None:
    text = learned_text(template)
    assert text.count("<|im_end|>") == 3
    assert text.count("<tool_call>") == 2
    assert text.count(json.dumps(KERNEL)) == 2
    assert text.endswith("Done.<|im_end|>")
    for other in ("You write kernels", "Write relu", "tail is missing", "Judges", "<|im_start|>"):
        assert other not in text


def test_messages_that_are_not_trained_are_not_learned(template: Template) -> None:
    text = learned_text(template, trained=[4])
    assert text.startswith("The tail too.")
    assert text.count("<|im_end|>") == 1


def test_tokens_are_those_of_the_templates_text(template: Template) -> None:
    tokens = template.tokenize(DIALOGUE, TOOLS)
    assert template.tokenizer.decode(tokens.ids) == template.write(DIALOGUE, TOOLS)


def test_a_prompt_its_reply_and_the_answers_make_the_whole_dialogue(template: Template) -> None:
    start = template.prompt_ids(DIALOGUE[:2], TOOLS)
    whole = template.write(DIALOGUE[:4], TOOLS, ask=True)
    said = template.write(DIALOGUE[:3], TOOLS)[len(template.write(DIALOGUE[:2], TOOLS, ask=True)) :]
    said_ids = template.tokenizer(said.rstrip("\n"), add_special_tokens=False)["input_ids"]
    ids = [*start, *said_ids, *template.answer_ids(DIALOGUE[3:4])]
    assert template.tokenizer.decode(ids) == whole


def test_a_tokenizer_without_a_template_is_refused() -> None:
    tokenizer = make_tokenizer(["x"])
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="the tokenizer of tiny has no chat template"):
        Template(tokenizer, name="tiny")


def test_a_template_that_rewrites_earlier_messages_is_refused() -> None:
    tokenizer = make_tokenizer(["x"])
    # Numbers messages from the end.
    tokenizer.chat_template = (
        "{% for m in messages %}{{ loop.revindex }}{{ m.role }}:{{ m.content }}<|im_end|>"
        "{% endfor %}{% if add_generation_prompt %}0assistant:{% endif %}"
    )
    with pytest.raises(UsageError, match="writes message 3 otherwise when the dialogue goes on"):
        Template(tokenizer, name="tiny").tokenize(DIALOGUE)
