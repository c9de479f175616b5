"""A tokenizer of our own, learned from the texts that a model is trained on.

Law: pieces may reach over blanks and punctuation but never over a line's end, so that a line which
comes often is one token; every text comes back from its tokens as it was. Made for models with
little room: general tokenizers write the same kernels in several times as many tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def make_tokenizer(texts: Iterable[str], *, vocabulary: int) -> Any:
    """A byte-pair tokenizer with the template of ChatML; `texts` are what messages say."""
    inner = Tokenizer(models.BPE())
    lines = pre_tokenizers.Split(Regex("\n"), behavior="merged_with_previous")
    whole_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([lines, whole_bytes])
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = TEMPLATE
    return tokenizer
