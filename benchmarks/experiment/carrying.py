"""The whole experiment, or a part of it: `python -m benchmarks.experiment`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from benchmarks.experiment.material import Material, choose_from, make_material
from benchmarks.experiment.plan import ExperimentPlan, read_plan
from benchmarks.experiment.stages import SeedRun
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import MachineError, NkiAgentError, UsageError
from nki_agent.cli.command import report_error
from nki_agent.farm.local import LocalExecutor


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stderr.write(f"{SystemClock().now():%H:%M:%S}  {text}\n")


def prepare(folder: Path, corpus: Path | None, plan: ExperimentPlan) -> Material:
    """Tasks, solutions, tokenizer and dialogues."""
    material = Material(folder / "material")
    if material.counts.exists():
        return material
    if corpus is None:
        corpus = folder / "corpus"
        say(f"building a corpus in {corpus}")
        run_command("data", "build", "--out", str(corpus))
    choose_from(corpus, material, plan.data)
    say(f"solving the experiment's tasks in {material.corpus}")
    run_command("data", "solve", str(material.corpus))
    with LocalExecutor() as executor:
        make_material(material, plan.data, executor=executor, say=say)
    return material


def run_command(*arguments: str) -> None:
    """A command of ours, on the screen.

    Raises:
        MachineError: it failed.
    """
    done = subprocess.run([sys.executable, "-m", "nki_agent", *arguments], check=False)
    # 1: done, and not every task is solved.
    if done.returncode not in (0, 1):
        raise MachineError(f"`{' '.join(arguments[:2])}` ended with {done.returncode}")


def settle_plan(folder: Path, plan: ExperimentPlan) -> None:
    """Keep the plan beside what is made by it.

    Raises:
        UsageError: the folder's work was begun by another.
    """
    path = folder / "plan.json"
    data = msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
    if path.exists() and path.read_bytes() != data:
        raise UsageError(f"{folder} was begun with another plan", hint="give another `--out`")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main() -> None:
    """Read the options and carry out what they ask for; an error is a line and an exit code."""
    try:
        _carry_out()
    except NkiAgentError as error:
        sys.exit(report_error(error))


def _carry_out() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/experiment"))
    parser.add_argument("--corpus", type=Path, help="a corpus folder; made where not given")
    parser.add_argument("--plan", type=Path, help="a TOML file; what it leaves out is as shipped")
    parser.add_argument("--seeds", type=int, nargs="*", help="only these")
    options = parser.parse_args()
    plan = read_plan(options.plan)
    settle_plan(options.out, plan)
    material = prepare(options.out, options.corpus, plan)
    runs = [
        SeedRun(
            folder=options.out / f"seed-{seed}",
            material=material,
            plan=plan,
            seed=seed,
            clock=SystemClock(),
            say=say,
        )
        for seed in (plan.seeds if options.seeds is None else options.seeds)
    ]
    for run in runs:
        run.begin()
    # The work is in processes of their own; a thread only waits for them.
    with ThreadPoolExecutor(max_workers=plan.at_once) as threads:
        list(threads.map(SeedRun.carry_out, runs))
