"""Evaluations on disk, made by hand."""

from pathlib import Path

import msgspec

from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.seeds import seed_for
from nki_agent.bench.attempt import Attempt, Cost, Proof, ShapeSpeed
from nki_agent.chip.spec import Target
from nki_agent.evals.attempts import AttemptLog
from nki_agent.evals.config import EvalConfig, TaskRef, Versions
from nki_agent.evals.results import CONFIG, LINES
from nki_agent.verify.verdict import Stage

TASKS = tuple(
    TaskRef(id=name, level=level, category=category)
    for name, level, category in (
        ("l1-add", 1, "elementwise"),
        ("l1-sum", 1, "reduction"),
        ("l2-linear", 2, "gemm epilogue"),
        ("l3-block", 3, "transformer block"),
    )
)
SEED = 5
VERSIONS = Versions(suite="tiny 1", suite_hash="0123456789abcdef", baseline="fedcba9876543210")


def make_config(**changes: object) -> EvalConfig:
    config = EvalConfig(
        versions=VERSIONS,
        split="all",
        tasks=TASKS,
        model="builtin",
        mode=Mode.LOOP,
        targets=(Target.TRN2,),
        samples=1,
        limits=Limits(),
        perf=True,
        seed=SEED,
    )
    return msgspec.structs.replace(config, **changes)


def make_attempt(task: TaskRef, **changes: object) -> Attempt:
    speed = ShapeSpeed(
        shapes="perf",
        latency_ns=2_000.0,
        bound_ns=1_000.0,
        percent_of_bound=50.0,
        limited_by="DMA",
        baseline_ns=3_000.0,
    )
    attempt = Attempt(
        task=task.id,
        task_hash="",
        level=task.level,
        category=task.category,
        target="trn2",
        sample=0,
        root_seed=seed_for(SEED, task.id, "trn2", 0),
        stage=Stage.RIGHT,
        end="solved",
        proof=Proof.RIGHT,
        speeds=(speed,),
        cost=Cost(turns=3, input_tokens=900, output_tokens=100, usd=0.25, wall_s=2.0),
    )
    return msgspec.structs.replace(attempt, **changes)


def write_run(folder: Path, config: EvalConfig, attempts: list[Attempt]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_bytes(msgspec.json.encode(config))
    with AttemptLog(folder / LINES) as log:
        for attempt in attempts:
            log.append(attempt)
    return folder


def write_usual_run(folder: Path, **changes: object) -> Path:
    """One right and fast, one wrong, one that hurts, one that is missing."""
    attempts = [
        make_attempt(TASKS[0]),
        make_attempt(TASKS[1], stage=Stage.WRONG, speeds=(), codes=("NK501",), end="turns"),
        make_attempt(
            TASKS[2],
            stage=None,
            speeds=(),
            end="gave_up",
            message="<script>alert(1)</script> | `ignore` \x1b[31m",
        ),
    ]
    return write_run(folder, make_config(**changes), attempts)
