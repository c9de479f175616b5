"""A tiny Qwen3-MoE and a tokenizer trained on the spot: no hub, no network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TEMPLATES = Path(trl.__file__).parent / "chat_templates"


def make_tokenizer(texts: Iterable[str], *, template: str = "qwen3_5_nothink.jinja") -> Any:
    """A byte-pair tokenizer whose template writes tool calls as Qwen3-Coder's does."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_tokens(list(TAGS))
    tokenizer.chat_template = (TEMPLATES / template).read_text(encoding="utf-8")
    return tokenizer
