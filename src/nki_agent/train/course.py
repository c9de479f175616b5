"""The course of a training: from its last checkpoint to its end, then to disk.

Law: SFT and GRPO begin and end alike; only the first process writes.
"""

from __future__ import annotations

from typing import Any

from nki_agent.train.arguments import remove_printer
from nki_agent.train.config import GrpoConfig, LinksPart, SftConfig
from nki_agent.train.curves import draw_curves
from nki_agent.train.folder import Summary, TrainingFolder, is_first_process, note_beginning, say
from nki_agent.train.guarding import saving
from nki_agent.train.tokens import Template
from nki_agent.train.trainers import LinkedGrpoTrainer, LinkedSftTrainer, link
from nki_agent.train.weights import save

Trainer = LinkedGrpoTrainer | LinkedSftTrainer


def prepare(folder: TrainingFolder, config: SftConfig | GrpoConfig, *, data: str) -> None:
    """Note what is in use, and clear what a crash left.

    Raises:
        UsageError: the training in the folder began with other data.
    """
    if is_first_process():
        note_beginning(folder, config, data=data)
        folder.drop_torn_checkpoints()


def train(trainer: Trainer, folder: TrainingFolder, links: LinksPart) -> None:
    """From the last checkpoint, if there is one, to the end."""
    remove_printer(trainer)
    link(trainer, links)
    checkpoint = folder.find_checkpoint()
    if checkpoint is not None:
        say(f"going on from {checkpoint.name}")
    if is_first_process():
        folder.forget_after(0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2]))
    with saving(f"to {folder.path}"):
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


def store(
    trainer: Trainer,
    template: Template,
    folder: TrainingFolder,
    *,
    rows: int,
    left_out: int,
    final: dict[str, float],
) -> Summary:
    """Write the model, the curves and what it came to."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    parameters = list(model.parameters())
    summary = Summary(
        steps=trainer.state.global_step,
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        rows=rows,
        left_out=left_out,
        final=final,
    )
    if is_first_process():
        # SFT switches it on, and then a saved mixture cannot generate.
        model.config.output_router_logits = False
        save(model, template, folder.model)
        draw_curves(folder.read_measures(), folder.curves)
        folder.write_summary(summary)
    return summary
