"""Supervised fine-tuning: a model learns to say what the assistant says in dialogues.

Law: the loss is on the assistant's tokens alone. A run that was killed goes on from its last
checkpoint and gives what it would have given. Needs the `train` extra.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from datasets import Dataset
from trl.trainer.sft_config import SFTConfig as TrlConfig

from nki_agent.base.clock import Clock
from nki_agent.base.counting import count_of
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import rng_for
from nki_agent.farm.executor import Executor
from nki_agent.train.arguments import (
    GOES_ON,
    common_arguments,
    guard_memory,
    hush,
    require_hardware,
)
from nki_agent.train.config import SftConfig
from nki_agent.train.course import prepare, store, train
from nki_agent.train.dialogues import Dialogues, read_dialogues, tokenize_all
from nki_agent.train.folder import Summary, TrainingFolder, say
from nki_agent.train.measuring import Measuring
from nki_agent.train.ordering import order_by_length
from nki_agent.train.processes import count_processes
from nki_agent.train.tokens import Template
from nki_agent.train.trainers import LinkedSftTrainer
from nki_agent.train.trying import make_trying
from nki_agent.train.weights import (
    add_adapter,
    load_model,
    load_template,
    require_model,
    require_vocabulary,
)

REMEDY = "take a smaller `batch` with a larger `accumulate`, or fewer `data.max_tokens`"
FINAL = ("loss", "eval_loss", "mean_token_accuracy", "eval_mean_token_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Tokenised dialogues."""

    dataset: Dataset
    left_out: int


def require_ready(config: SftConfig) -> None:
    """See what can be seen before anything is made.

    Raises:
        UsageError: no such model or adapter, or packing that the attention cannot do.
    """
    require_model(config.model)
    require_packing(config)
    require_hardware(config.hardware, config.links)


def run_sft(
    config: SftConfig, folder: TrainingFolder, *, executor: Executor, clock: Clock
) -> Summary:
    """Train, or go on, what `require_ready` has seen; the model is in `folder.model` at the end.

    Raises:
        UsageError: the data cannot be used.
        MachineError: the memory does not suffice.
    """
    hush()
    data = read_dialogues(
        config.data, split=config.data.split, limit=config.data.limit, seed=config.seed
    )
    template = load_template(config.model)
    rows = make_rows(data, template, max_tokens=config.data.max_tokens)
    steps = count_steps(config, num_rows=len(rows.dataset))
    held_out = _read_held_out(config, template)
    prepare(folder, config, data=data.digest)
    with guard_memory(f"{REMEDY}; {GOES_ON}"):
        torch.manual_seed(config.seed)
        model = load_model(config.model)
        if config.lora is not None:
            model = add_adapter(model, config.lora)
        require_vocabulary(model, template)
        trainer = LinkedSftTrainer(
            model=model,
            args=make_arguments(config, folder, steps=steps),
            train_dataset=arrange(rows.dataset, config, steps=steps),
            eval_dataset=held_out,
            processing_class=template.tokenizer,
            callbacks=[Measuring(folder), *make_trying(config, template, folder, executor, clock)],
        )
        train(trainer, folder, config.links)
        final = _measure_end(trainer, has_held_out=held_out is not None)
    return store(
        trainer,
        template,
        folder,
        rows=len(rows.dataset),
        left_out=rows.left_out,
        final=final,
    )


def require_packing(config: SftConfig) -> None:
    """See that packed dialogues don't read each other.

    Raises:
        UsageError: the attention cannot keep them apart.
    """
    if config.packing and config.model.attention != "flash_attention_2":
        raise UsageError(
            f"packing with the attention `{config.model.attention}` lets packed dialogues read"
            " each other",
            hint='set `attention = "flash_attention_2"` in [model], or `packing = false`',
        )


def make_rows(data: Dialogues, template: Template, *, max_tokens: int) -> Rows:
    """The dialogues as tokens.

    Raises:
        UsageError: none is short enough.
    """
    found = list(tokenize_all(data, template, max_tokens=max_tokens))
    kept = [
        {"input_ids": tokens.ids, "assistant_masks": tokens.learned}
        for _, tokens in found
        if tokens is not None
    ]
    if not kept:
        raise UsageError(
            f"of {count_of(len(found), 'dialogue')} none is left: all are longer than {max_tokens}"
            " tokens, or train no message",
            hint="raise `max_tokens` in [data]",
        )
    left_out = len(found) - len(kept)
    if left_out:
        why = f"longer than {max_tokens} tokens, or train no message"
        say(f"{left_out} of {count_of(len(found), 'dialogue')} left out: {why}")
    return Rows(dataset=Dataset.from_list(kept), left_out=left_out)


def count_steps(config: SftConfig, *, num_rows: int) -> int:
    """Changes of the weights in all."""
    per_step = config.batch * config.accumulate * count_processes(config.hardware)
    return config.steps or max(1, math.ceil(config.epochs * math.ceil(num_rows / per_step)))


def arrange(dataset: Dataset, config: SftConfig, *, steps: int) -> Dataset:
    """The rows as they are drawn from; with `like_lengths` every batch of the training in order."""
    if not config.like_lengths:
        return dataset
    batches = steps * config.accumulate * count_processes(config.hardware)
    lengths = [len(ids) for ids in dataset["input_ids"]]
    rng = rng_for(config.seed, "like lengths")
    return dataset.select(order_by_length(lengths, batch=config.batch, batches=batches, rng=rng))


def make_arguments(config: SftConfig, folder: TrainingFolder, *, steps: int) -> TrlConfig:
    """The config in TRL's words."""
    common = common_arguments(config, folder, steps=steps, dtype=config.model.dtype)
    return TrlConfig(
        **common,
        per_device_train_batch_size=config.batch,
        per_device_eval_batch_size=config.batch,
        gradient_accumulation_steps=config.accumulate,
        max_length=config.data.max_tokens,
        packing=config.packing,
        packing_strategy="bfd",
        train_sampling_strategy="sequential" if config.like_lengths else "random",
        assistant_only_loss=False,  # the rows say which tokens are learned
        completion_only_loss=False,
        loss_type="nll",
        router_aux_loss_coef=0.0,
        eval_strategy="steps" if config.evaluate.every_steps else "no",
        eval_steps=config.evaluate.every_steps or None,
    )


def _read_held_out(config: SftConfig, template: Template) -> Dataset | None:
    evaluate = config.evaluate
    try:
        data = read_dialogues(
            config.data, split=evaluate.split, limit=evaluate.dialogues, seed=config.seed
        )
    except UsageError:
        if evaluate.every_steps:
            raise
        return None
    return make_rows(data, template, max_tokens=config.data.max_tokens).dataset


def _measure_end(trainer: LinkedSftTrainer, *, has_held_out: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in trainer.state.log_history:
        found.update(line)
    if has_held_out:
        found.update(trainer.evaluate())
    return {name: float(found[name]) for name in FINAL if name in found}
