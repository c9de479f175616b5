"""A tiny Qwen3-MoE and a tokenizer trained on the spot: no hub, no network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TEMPLATES = Path(trl.__file__).parent / "chat_templates"


def make_tokenizer(texts: Iterable[str], *, template: str = "qwen3_instruct_2507.jinja") -> Any:
    """A byte-pair tokenizer whose template is that of Qwen3 without thoughts."""
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
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_tokens(list(TAGS))
    tokenizer.chat_template = (TEMPLATES / template).read_text(encoding="utf-8")
    return tokenizer


def write_model(folder: Path, texts: Iterable[str], *, seed: int = 0) -> Path:
    """A folder with a random Qwen3-MoE of about 0.2 million parameters, and its tokenizer."""
    tokenizer = make_tokenizer(texts)
    torch.manual_seed(seed)
    make_config: Any = Qwen3MoeConfig
    make_weights: Any = Qwen3MoeForCausalLM
    config = make_config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    make_weights(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
