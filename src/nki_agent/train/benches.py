"""A workbench around a model that this process has loaded."""

from __future__ import annotations

from typing import Any

from nki_agent.agent.ablation import make_ablation
from nki_agent.agent.episode import Mode
from nki_agent.base.clock import Clock
from nki_agent.chip.spec import Target
from nki_agent.farm.executor import Executor
from nki_agent.train.attempts import Way, Workbench
from nki_agent.train.config import GenerationPart
from nki_agent.train.tokens import Template
from nki_agent.train.writer import Temperatures, Writer


def make_way(
    generation: GenerationPart,
    template: Template,
    *,
    target: Target,
    remembered: int | None = None,
) -> Way:
    """How attempts are made; of its replies a model reads the last `remembered` again.

    Raises:
        UsageError: its tools do not exist, or a single shot has some.
    """
    is_single = generation.mode is Mode.SINGLE_SHOT
    return Way(
        template=template,
        mode=generation.mode,
        turns=generation.turns,
        reply_tokens=generation.reply_tokens,
        room_tokens=generation.reply_tokens if is_single else generation.completion_tokens,
        target=target,
        remembered=remembered,
        ablation=make_ablation(
            generation.prompt, None if is_single else generation.tools, mode=generation.mode
        ),
    )


def make_bench(
    model: Any,
    way: Way,
    *,
    temperatures: Temperatures,
    seed: int,
    executor: Executor,
    clock: Clock,
) -> Workbench:
    """Attempts by a model of transformers."""
    writer = Writer(
        model=model,
        tokenizer=way.template.tokenizer,
        reply_tokens=way.reply_tokens,
        temperatures=temperatures,
        seed=seed,
    )
    return Workbench(way, writer.draw, executor, clock=clock)
