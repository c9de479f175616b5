"""A tokenizer of our own, learned from the texts that a model is trained on.

Law: pieces may reach over blanks and punctuation but never over a line's end, so that a line which
comes often is one token. What differs from task to task (the tiles and numbers that an instruction
is given, what it computes) is apart, so that a word of the task is the same token in a kernel and
can be copied there. Every text comes back from its tokens as it was. Made for models with little
room: general tokenizers write the same kernels in several times as many tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD: Final = "<|endoftext|>"
BEGIN: Final = "<|im_start|>"
END: Final = "<|im_end|>"
TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML without tools: small models are shown none."""
_APART: Final = "|".join(
    (
        r"\w+(?= = nl\.ndarray)",
        r"(?<=op=nl\.|op0=nl\.|op1=nl\.)\w+",
        r"(?<=dst=|src=|data=|data1=|data2=|operand0=|operand1=|scale=|bias=)[A-Za-z]\w*(?=[,)\[.])",
        r"(?<![\w.])\d+\.\d+(?:e-?\d+)?",
    )
)
"""Tiles, operators and numbers of instructions; numbers with a point in what tasks say too."""
_WORD: Final = re.compile(r" ?[A-Za-z_]+")


def make_tokenizer(texts: Iterable[str], *, words: Iterable[str] = (), vocabulary: int) -> Any:
    """A byte-pair tokenizer with the template of ChatML.

    Lines of `texts` become long pieces; of `words` no piece is longer than a word, so that what a
    task says is read word by word. Numbers in them stay digits.
    """
    inner = Tokenizer(models.BPE())
    lines = pre_tokenizers.Split(Regex("\n"), behavior="merged_with_previous")
    names = pre_tokenizers.Split(Regex(_APART), behavior="isolated")
    whole_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([lines, names, whole_bytes])
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    apart = (word for text in words for word in _WORD.findall(text))
    inner.train_from_iterator(chain(texts, apart), trainer)
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = TEMPLATE
    return tokenizer
