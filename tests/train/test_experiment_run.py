"""A toy experiment through the real commands: from a corpus to the page; nothing is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.experiment.stages import MODELS
from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask, Family
from nki_agent.corpus.stored import TASKS
from tests.train.world import make_row

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
SINGLE = ("relu", "tanh", "sigmoid", "exp", "square", "abs")
FUSED = (("relu", "tanh"), ("tanh", "square"), ("abs", "exp"))
SOURCE = '''"""A function of each element."""

import torch

SHAPES = {{
    "dev": {{"M": 96, "N": {columns}}},
    "odd": {{"M": 33, "N": 70}},
    "perf": {{"M": 1024, "N": 512}},
}}
INPUTS = {{"x": "float32[M, N]"}}
OUTPUTS = {{"y": "float32[M, N]"}}
TOLERANCE = "F2"


def reference(x: torch.Tensor) -> torch.Tensor:
    return {steps}
'''
PLAN = """
seeds = [0]
[data]
train_fused = 2
practice_single = 2
practice_fused = 1
held_out_single = 2
held_out_known = 1
held_out_fused = 1
tokens_max = 2000
single_tokens_max = 2000
fused_tokens_max = 2000
repair_tokens_max = 4000
sizes_single = 2
sizes_fused = 2
vocabulary = 400
repairs = 1.0
[model]
hidden = 32
layers = 1
experts = 2
expert_hidden = 32
head = 16
query_heads = 2
key_heads = 1
[sft]
steps = 4
batch = 2
[grpo]
steps = 1
tasks_per_step = 1
attempts = 2
reply_tokens = 16
[evaluation]
turns = 2
"""


def make_task(names: tuple[str, ...], *, columns: int) -> CorpusTask:
    steps = "x"
    for name in names:
        steps = f"torch.{name}({steps})"
    source = SOURCE.format(columns=columns, steps=steps)
    row = make_row(f"c-elementwise-{'-'.join(names)}-{columns}", names[0])
    return msgspec.structs.replace(
        row,
        source=source,
        sha256=hash_text(source),
        level=len(names),
        family=Family.ELEMENTWISE,
        graph="-".join(names),
    )


def write_corpus(folder: Path) -> None:
    folder.mkdir()
    rows = [make_task((name,), columns=n) for name in SINGLE for n in (64, 120)]
    rows += [make_task(names, columns=64) for names in FUSED]
    (folder / TASKS).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_toy_experiment_runs_from_corpus_to_page_and_repeats_nothing(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus")
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    options = ["--out", str(tmp_path / "run"), "--corpus", str(tmp_path / "corpus")]
    options += ["--plan", str(tmp_path / "plan.toml")]
    run("benchmarks.experiment", *options)
    stages = tmp_path / "run" / "seed-0" / "stages.jsonl"
    done = stages.read_text("utf-8")
    assert len(done.splitlines()) == 3 + 2 * len(MODELS)
    run("benchmarks.experiment", *options)
    assert stages.read_text("utf-8") == done

    results = tmp_path / "results"
    results.mkdir()
    run("benchmarks.experiment.report", str(tmp_path / "run"), "--results", str(results))
    assert "## The answers" in (results / "experiment.md").read_text("utf-8")
    record = json.loads((results / "experiment" / "seed-0.json").read_bytes())
    assert len(record["tries"]) == 2 * len(MODELS)
