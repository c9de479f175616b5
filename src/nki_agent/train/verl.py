"""The same recipe for verl on a cluster: rows as it reads them, and the reward as it calls it.

verl runs in an environment of its own with this package beside it; configs/verl-grpo.yaml names
`compute_score` as its `custom_reward_function`. Law: the score comes from the judge; a verdict that
the machine lost raises, so that verl draws the attempt again instead of taking it for a failure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.agent.ablation import Ablation
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.loop import find_kernel
from nki_agent.agent.prompt import make_prompt
from nki_agent.base.errors import MachineError, TaskError
from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import draw_root_seed
from nki_agent.chip.spec import Target
from nki_agent.corpus.record import Origin
from nki_agent.farm.job import Job, Judged, Unusable
from nki_agent.farm.local import LocalExecutor
from nki_agent.train.outcome import Outcome
from nki_agent.train.reward import REWARDS, find_reward
from nki_agent.train.shelf import Entry
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

SOURCE = "nki-agent"
"""verl's `data_source`: which reward a row is for."""


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What a row carries for its reward: the task, and a latency to compare with."""

    id: str
    source: str
    target: Target
    is_trusted: bool
    baseline_ns: float | None = None


def make_rows(
    entries: Iterable[Entry], *, target: Target, baselines: dict[str, float], mode: Mode
) -> Iterator[dict[str, Any]]:
    """A row for each task, as verl reads them from Parquet."""
    for index, entry in enumerate(entries):
        ablation = Ablation(tools=()) if mode is Mode.SINGLE_SHOT else Ablation()
        prompt = make_prompt(
            entry.task, target=target, mode=mode, limits=Limits(), ablation=ablation
        )
        truth = Truth(
            id=entry.id,
            source=entry.row.source,
            target=target,
            is_trusted=entry.row.origin is Origin.GRAMMAR,
            baseline_ns=baselines.get(entry.id),
        )
        yield {
            "data_source": SOURCE,
            "prompt": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            "ability": "kernels",
            "reward_model": {"style": "rule", "ground_truth": msgspec.json.encode(truth).decode()},
            "extra_info": {"index": index, "level": entry.row.level, "split": entry.row.split},
        }


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    reward: str = "graded",
) -> dict[str, float]:
    """The reward of a reply, and beside it what the other rewards would have paid.

    Raises:
        TaskError: the row holds no task that can be judged by.
        MachineError: the verdict was lost.
    """
    del data_source, extra_info
    truth = msgspec.json.decode(ground_truth, type=Truth)
    source = find_kernel(solution_str)
    verdict = None if source is None else _judge(truth, source)
    outcome = Outcome(verdict=verdict, baseline_ns=truth.baseline_ns)
    paid = {name: pay(outcome) for name, pay in REWARDS.items()}
    return {"score": find_reward(reward)(outcome), **paid}


def _judge(truth: Truth, source: str) -> Verdict:
    kernel = Kernel.from_text(source)
    job = Job(
        id=kernel.hash,
        kernel=kernel,
        task=_write_task(truth.id, truth.source),
        target=truth.target,
        is_task_trusted=truth.is_trusted,
        root_seed=draw_root_seed(),
    )
    end = _executor().submit(job).result()
    if isinstance(end, Judged):
        return end.verdict
    if isinstance(end, Unusable):
        raise TaskError(end.message, hint=end.hint)
    raise MachineError(f"the verdict was lost: {end}")


@cache
def _executor() -> LocalExecutor:
    """One farm for this process."""
    return LocalExecutor()


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="nki-agent-verl-"))


@cache
def _write_task(name: str, source: str) -> Path:
    path = _folder() / hash_text(source) / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path
