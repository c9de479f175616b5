"""What every training says to transformers, and what running out of memory means.

Law: nothing that figures depend on is left to a library's default, which may change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import datasets
import torch
import transformers

from nki_agent.base.counting import count_of
from nki_agent.base.errors import MachineError, UsageError
from nki_agent.train.config import (
    Compression,
    GrpoConfig,
    HardwarePart,
    LinksPart,
    SftConfig,
)
from nki_agent.train.folder import TrainingFolder
from nki_agent.train.guarding import is_memory
from nki_agent.train.processes import count_started


def common_arguments(
    config: SftConfig | GrpoConfig, folder: TrainingFolder, *, steps: int, dtype: str
) -> dict[str, Any]:
    """Arguments that SFT and GRPO have in common."""
    optimizer, hardware = config.optimizer, config.hardware
    on_cpu = hardware.gpus == 0
    if hardware.threads is not None:
        torch.set_num_threads(hardware.threads)
    # Libraries must not send anything anywhere, nor look for anything.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    arguments: dict[str, Any] = {
        "output_dir": str(folder.checkpoints),
        "max_steps": steps,
        "learning_rate": optimizer.learning_rate,
        "lr_scheduler_type": optimizer.schedule,
        "warmup_steps": round(optimizer.warmup_share * steps),
        "weight_decay": optimizer.weight_decay,
        "adam_beta1": optimizer.betas[0],
        "adam_beta2": optimizer.betas[1],
        "max_grad_norm": optimizer.max_grad_norm,
        "optim": "adamw_torch",
        "seed": config.seed,
        "data_seed": config.seed,
        "use_cpu": on_cpu,
        "bf16": not on_cpu and dtype == "bfloat16",
        "fp16": False,
        "gradient_checkpointing": hardware.gradient_checkpointing and hardware.shard == "none",
        "logging_steps": config.log_steps,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        "save_total_limit": config.keep,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": not on_cpu,
        "ddp_backend": "gloo" if on_cpu and "RANK" in os.environ else None,
    }
    if hardware.shard == "fsdp2":
        arguments["fsdp"] = True
        arguments["fsdp_config"] = {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "reshard_after_forward": True,
            "cpu_ram_efficient_loading": True,
            "activation_checkpointing": hardware.gradient_checkpointing,
            "state_dict_type": "FULL_STATE_DICT",
        }
    return arguments


def require_hardware(hardware: HardwarePart, links: LinksPart) -> None:
    """See that the devices of the config are there, and that their links can do what it says.

    Raises:
        UsageError: they are not, or cannot.
    """
    if links.compression is not Compression.NONE and hardware.shard != "none":
        raise UsageError(
            f"[links] cannot send `{links.compression}` between processes that share their weights",
            hint='set `shard = "none"` in [hardware], or take [links] away',
        )
    processes = count_started()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    gpus = torch.cuda.device_count()
    if hardware.gpus == 0 or (hardware.gpus == processes and here <= gpus):
        return
    raise UsageError(
        f"the config is for {count_of(hardware.gpus, 'GPU')}, and was started as"
        f" {count_of(processes, 'process', 'processes')} on a machine with"
        f" {count_of(gpus, 'GPU')}",
        hint="start it by `torchrun --nproc-per-node` with as many processes as GPUs, or set"
        " `gpus = 0` in [hardware] to train on the CPU",
    )


def hush() -> None:
    """Keep the libraries' own bars and chatter off the screen; their warnings stay."""
    datasets.disable_progress_bars()
    bars: Any = transformers.utils.logging
    bars.disable_progress_bar()


def remove_printer(trainer: Any) -> None:
    """A trainer prints its measures as Python dicts; ours are shown by `measuring`."""
    trainer.remove_callback(transformers.PrinterCallback)


GOES_ON: Final = "then start again: it goes on from the last checkpoint"


@contextmanager
def guard_memory(remedy: str) -> Iterator[None]:
    """Say what to do when the memory does not suffice.

    Raises:
        MachineError: it does not; what was saved stays, and the next start goes on from it.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        first = (str(error).splitlines() or ["no memory"])[0]
        raise MachineError(f"the memory does not suffice: {first}\n  hint: {remedy}") from error
