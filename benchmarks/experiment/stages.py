"""The stages of one seed, as the commands that anyone may run: each is done once.

Law: a stage that was stopped goes on, a training from its last checkpoint; one that is done is not
done again. Both GRPO arms begin from the same weights and differ in their reward alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.experiment.material import Material, write_model
from benchmarks.experiment.plan import ExperimentPlan
from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Mode
from nki_agent.base.clock import Clock
from nki_agent.base.errors import MachineError
from nki_agent.base.jsonl import append_line
from nki_agent.corpus.record import Split
from nki_agent.train.config import (
    CurriculumPart,
    DataPart,
    GenerationPart,
    GroupsPart,
    GrpoConfig,
    HardwarePart,
    ModelPart,
    OptimizerPart,
    SftConfig,
    write_config,
)

BASE, SFT = "base", "sft"
REWARDS: Final = ("compiles", "graded")
TASKS_MAX: Final = 10_000
"""More than are held out: all of them are measured."""
NS_PER_S: Final = 1e9
KIB_PER_GIB: Final = float(1 << 20)
FENCE_TOKENS: Final = 16
"""Of a reply beside the kernel."""

MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
    "MALLOC_TOP_PAD_": str(1 << 28),
}
"""Tensors that are freed are kept for the next step: a quarter of a step's time went to the system
for giving memory back and fetching it again."""


def grpo_name(reward: str) -> str:
    """The stage that climbs a reward."""
    return f"grpo-{reward}"


MODELS: Final = (BASE, SFT, *map(grpo_name, REWARDS))
"""Every model that is measured, in the order in which they come about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRun:
    """One seed in its folder."""

    folder: Path
    material: Material
    plan: ExperimentPlan
    seed: int
    clock: Clock
    say: Callable[[str], object]

    def begin(self) -> None:
        """Make its folder and the model that knows nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_model(self.folder / BASE, self.material, self.plan, seed=self.seed)

    def carry_out(self) -> None:
        """Every stage that is not done yet."""
        self._train(SFT, write_config(self.make_sft()))
        self._evaluate(SFT)
        for reward in REWARDS:
            self._train(grpo_name(reward), write_config(self.make_grpo(reward)))
            self._evaluate(grpo_name(reward))
        self._evaluate(BASE)

    def make_sft(self) -> SftConfig:
        """From nothing."""
        plan = self.plan.sft
        return SftConfig(
            model=ModelPart(path=str(self.folder / BASE), dtype="float32"),
            data=DataPart(
                path=str(self.material.dialogues),
                kinds=plan.kinds,
                max_tokens=self.plan.data.repair_tokens_max,
            ),
            optimizer=OptimizerPart(
                learning_rate=plan.learning_rate, weight_decay=0.1, warmup_share=0.03
            ),
            hardware=HardwarePart(threads=self.plan.threads),
            batch=plan.batch,
            like_lengths=True,
            steps=plan.steps,
            save_steps=max(plan.steps // 4, 1),
            keep=1,
            log_steps=max(plan.steps // 60, 1),
            seed=self.seed,
        )

    def make_grpo(self, reward: str) -> GrpoConfig:
        """From what SFT has made."""
        plan = self.plan.grpo
        attempts = plan.tasks_per_step * plan.attempts
        return GrpoConfig(
            model=ModelPart(path=str(self.folder / SFT / "model"), dtype="float32"),
            tasks=str(self.material.corpus),
            split=Split.VALIDATION.value,
            reward=reward,
            optimizer=OptimizerPart(
                learning_rate=plan.learning_rate, schedule="constant_with_warmup", warmup_share=0.1
            ),
            hardware=HardwarePart(threads=self.plan.threads),
            generation=GenerationPart(
                mode=Mode.SINGLE_SHOT,
                prompt=PromptKind.SHORT,
                reply_tokens=plan.reply_tokens,
                completion_tokens=plan.reply_tokens,
            ),
            groups=GroupsPart(drop_equal=False),
            curriculum=CurriculumPart(levels=plan.levels, open_at=(0.0,) * len(plan.levels)),
            attempts=plan.attempts,
            tasks_per_step=plan.tasks_per_step,
            batch=attempts,
            steps=plan.steps,
            save_steps=max(plan.steps // 4, 1),
            keep=1,
            seed=self.seed,
        )

    def _train(self, name: str, config: str) -> None:
        out = self.folder / name
        if (out / "summary.json").exists():
            return
        path = self.folder / f"{name}.toml"
        path.write_text(config, encoding="utf-8")
        kind = SFT if name == SFT else "grpo"
        self._run(f"train {name}", ["train", kind, str(path), "--out", str(out)])

    def _evaluate(self, name: str) -> None:
        for mode in (Mode.SINGLE_SHOT, Mode.LOOP):
            done = self.find_evaluation(name, mode)
            if done.exists():
                continue
            part = done.with_suffix(".part")
            part.parent.mkdir(exist_ok=True)
            part.unlink(missing_ok=True)
            arguments = ["train", "evaluate", str(self.folder / name), str(self.material.corpus)]
            self._run(f"measure {name}, {mode}", [*arguments, *self._how(mode, part)])
            part.replace(done)

    def find_evaluation(self, name: str, mode: Mode) -> Path:
        """Where a model's tries are."""
        return self.folder / "evaluations" / f"{name}-{mode.value}.jsonl"

    def _how(self, mode: Mode, out: Path) -> Iterator[str]:
        plan = self.plan
        options = {
            "split": "test",
            "tasks": TASKS_MAX,
            "mode": mode.value,
            "turns": plan.evaluation.turns,
            "reply-tokens": self._reply_tokens,
            "temperature": 0.0,
            "retry-temperature": plan.evaluation.temperature,
            "remember": plan.evaluation.remembered,
            "seed": self.seed,
            "out": out,
        }
        for name, value in options.items():
            yield from (f"--{name}", str(value))

    @property
    def _reply_tokens(self) -> int:
        return self.plan.data.tokens_max + FENCE_TOKENS

    def _run(self, what: str, arguments: list[str]) -> None:
        self.say(f"seed {self.seed}: {what}")
        run_logged(arguments, self.folder, what=what, threads=self.plan.threads, clock=self.clock)


def run_logged(
    arguments: list[str], folder: Path, *, what: str, threads: int, clock: Clock
) -> None:
    """A command of ours; what it says is kept in `log.txt`, its time in `stages.jsonl`.

    Raises:
        MachineError: it failed.
    """
    start_ns = clock.monotonic_ns()
    with (folder / "log.txt").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nki_agent", *arguments],
            stdout=log,
            stderr=log,
            env={**os.environ, **MEMORY, "OMP_NUM_THREADS": str(threads)},
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise MachineError(
            f"`{' '.join(arguments[:2])}` ended with {process.returncode}; {folder / 'log.txt'}"
            " says why; the next start goes on there"
        )
    line = {
        "stage": what,
        "wall_s": round((clock.monotonic_ns() - start_ns) / NS_PER_S, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "memory_gib": round(used.ru_maxrss / KIB_PER_GIB, 2),
    }
    append_line(folder / "stages.jsonl", line)
