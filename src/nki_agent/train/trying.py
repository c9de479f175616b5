"""Tries a model on held-out tasks as it trains.

Law: the same tasks and seeds every time, so that the shares of two steps are comparable; a trial
moves nothing of the training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from nki_agent.base.clock import Clock
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.farm.executor import Executor
from nki_agent.train.attempts import Way
from nki_agent.train.benches import make_bench, make_way
from nki_agent.train.config import EvaluatePart, GrpoConfig, SftConfig
from nki_agent.train.evaluate import choose, evaluate, sum_up
from nki_agent.train.folder import TrainingFolder, is_first_process, say
from nki_agent.train.shelf import Shelf
from nki_agent.train.tokens import Template
from nki_agent.train.writer import Temperatures


class Trying(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Writes kernels for held-out tasks every so many steps, and notes how many are right."""

    def __init__(
        self,
        part: EvaluatePart,
        way: Way,
        shelf: Shelf,
        folder: TrainingFolder,
        *,
        executor: Executor,
        clock: Clock,
    ) -> None:
        """The tasks are those of `part.split`."""
        self._part = part
        self._way = way
        self._shelf = shelf
        self._folder = folder
        self._executor = executor
        self._clock = clock
        self._rows = choose(shelf.list_split(part.split), part.tasks, seed=0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer."""
        del args, control
        if state.global_step % self._part.every_steps or not is_first_process():
            return
        temperature = self._part.generation.temperature
        bench = make_bench(
            kwargs["model"],
            self._way,
            temperatures=Temperatures(first=temperature, later=temperature),
            seed=0,
            executor=self._executor,
            clock=self._clock,
        )
        shares = sum_up(list(evaluate(self._rows, bench, self._shelf, seed=0)))
        measures = {
            "held_out/right": shares.right.value,
            "held_out/compiled": shares.compiled.value,
        }
        self._folder.add_measures(state.global_step, measures)
        say(
            f"step {state.global_step}  of {shares.tasks} held-out tasks"
            f" {shares.right.value:.1%} right, {shares.compiled.value:.1%} compiled"
        )


def make_trying(
    config: SftConfig | GrpoConfig,
    template: Template,
    folder: TrainingFolder,
    executor: Executor,
    clock: Clock,
) -> list[Trying]:
    """What the config asks for; nothing where it names no corpus.

    Raises:
        UsageError: there is no such corpus, or it has no such split.
    """
    part = config.evaluate
    if part.corpus is None or not part.every_steps:
        return []
    target = config.target if isinstance(config, GrpoConfig) else DEFAULT_TARGET
    way = make_way(part.generation, template, target=target)
    shelf = Shelf(Path(part.corpus), folder=folder.tasks)
    return [Trying(part, way, shelf, folder, executor=executor, clock=clock)]
