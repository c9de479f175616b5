"""GRPO: a model tries each task several times, and does more of what did better than the mean.

Law: attempts are made by the agent's own loop and judged by the judge; an attempt that the machine
lost moves nothing. Every attempt is written down with what each reward would have paid it. Needs
the `train` extra.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig as TrlConfig

from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import rng_for
from nki_agent.farm.executor import Executor
from nki_agent.train.arguments import (
    GOES_ON,
    common_arguments,
    guard_memory,
    hush,
    require_hardware,
)
from nki_agent.train.benches import make_way
from nki_agent.train.config import GrpoConfig
from nki_agent.train.course import prepare, store, train
from nki_agent.train.folder import Summary, TrainingFolder
from nki_agent.train.groups import plan_tasks, require_whole_groups
from nki_agent.train.measuring import Measuring
from nki_agent.train.reward import find_reward
from nki_agent.train.rollouts import Rollouts
from nki_agent.train.shelf import Shelf
from nki_agent.train.trainers import LinkedGrpoTrainer
from nki_agent.train.trying import make_trying
from nki_agent.train.weights import (
    add_adapter,
    load_model,
    load_template,
    require_model,
    require_vocabulary,
)

REMEDY = "take a smaller `batch`, or fewer `generation.completion_tokens`"
FINAL = ("reward", "right", "compiled", "equal_groups")


def require_ready(config: GrpoConfig) -> None:
    """See what can be seen before anything is made.

    Raises:
        UsageError: no such reward, model or adapter, or sizes that don't fit together.
    """
    find_reward(config.reward)
    require_whole_groups(config)
    require_model(config.model)
    require_hardware(config.hardware, config.links)
    if config.generation.temperature <= 0:
        raise UsageError(
            "at `generation.temperature` 0 all attempts of a group are the same",
            hint="1.0 draws as the model is trained",
        )
    if config.generation.vllm != "none" and importlib.util.find_spec("vllm") is None:
        raise UsageError(
            f"`generation.vllm` is `{config.generation.vllm}`, and vllm is not installed",
            hint='install it, or set `vllm = "none"`',
        )


def run_grpo(
    config: GrpoConfig, folder: TrainingFolder, *, executor: Executor, clock: Clock
) -> Summary:
    """Train, or go on, what `require_ready` has seen; the model is in `folder.model` at the end.

    Raises:
        UsageError: the tasks cannot be used.
        MachineError: the memory does not suffice.
    """
    hush()
    own_attempts = require_whole_groups(config)
    template = load_template(config.model)
    shelf = Shelf(Path(config.tasks), folder=folder.tasks)
    rows = plan_tasks(
        shelf.list_split(config.split),
        config.curriculum,
        steps=config.steps,
        tasks_per_step=config.tasks_per_step,
        rng=rng_for(config.seed, "curriculum"),
    )
    prepare(folder, config, data=hash_text("".join(row.sha256 for row in rows)))
    way = make_way(config.generation, template, target=config.target)
    rollouts = Rollouts(config, way, shelf, executor=executor, clock=clock, folder=folder)
    with guard_memory(f"{REMEDY}; {GOES_ON}"):
        torch.manual_seed(config.seed)
        model = load_model(config.model)
        if config.lora is not None:
            model = add_adapter(model, config.lora)
        require_vocabulary(model, template)
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        trainer = LinkedGrpoTrainer(
            model=model,
            args=make_arguments(config, folder, own_attempts=own_attempts),
            # The agent's own prompt takes the place of the task's name when attempts are made.
            train_dataset=Dataset.from_list([{"prompt": row.id} for row in rows]),
            reward_funcs=rollouts.pay,
            rollout_func=rollouts.roll_out,
            processing_class=template.tokenizer,
            callbacks=[Measuring(folder), *make_trying(config, template, folder, executor, clock)],
        )
        train(trainer, folder, config.links)
    shelf.close()
    final = _list_final(folder)
    return store(trainer, template, folder, rows=len(rows), left_out=0, final=final)


def make_arguments(config: GrpoConfig, folder: TrainingFolder, *, own_attempts: int) -> TrlConfig:
    """The config in TRL's words."""
    generation = config.generation
    return TrlConfig(
        **common_arguments(config, folder, steps=config.steps, dtype=config.model.dtype),
        per_device_train_batch_size=config.batch,
        gradient_accumulation_steps=own_attempts // config.batch,
        steps_per_generation=own_attempts // config.batch,
        num_generations=config.attempts,
        num_iterations=1,
        shuffle_dataset=False,  # the curriculum has put the tasks in order
        max_completion_length=generation.reply_tokens,
        temperature=generation.temperature,
        top_p=generation.top_p,
        use_vllm=generation.vllm != "none",
        vllm_mode="server" if generation.vllm == "server" else "colocate",
        vllm_gpu_memory_utilization=generation.vllm_memory_share,
        vllm_tensor_parallel_size=generation.vllm_tensor_parallel,
        beta=config.beta,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        loss_type=config.loss,
        scale_rewards="group" if config.scale_by_spread else "none",
        mask_truncated_completions=False,
        router_aux_loss_coef=0.0,
        log_completions=False,
    )


def _list_final(folder: TrainingFolder) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in folder.read_measures():
        found.update({name: line[name] for name in FINAL if name in line})
    return found
