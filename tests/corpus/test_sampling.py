"""Episodes of a model over a corpus: on disk as they happen, in the log once."""

import asyncio
from pathlib import Path

import pytest

from nki_agent.agent.episode import Limits
from nki_agent.base.clock import FakeClock
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import Kind
from nki_agent.corpus.publishing import read_log
from nki_agent.corpus.sampling import Sampled, Sampling
from nki_agent.corpus.stored import read_solutions, read_tasks
from nki_agent.farm.local import LocalExecutor
from nki_agent.llm.choose import ModelSource
from tests.corpus.small import bench_row, write_corpus

TASK = "l1-rsqrt-2d"


def sample(folder: Path, model: str, *, number: int = 1) -> Sampled:
    tasks = read_tasks(folder).good
    files = folder / "files"
    files.mkdir(exist_ok=True)
    with LocalExecutor(workers=1) as executor, ModelSource(model) as models:
        sampling = Sampling(
            folder=folder,
            tasks=tasks,
            wanted=tasks,
            number=number,
            target=Target.TRN2,
            root_seed=0,
            model=model,
            models=models,
            limits=Limits(),
            executor=executor,
            files=files,
            clock=FakeClock(),
        )
        work = sampling.carry_out(episodes=2, watch=lambda _: None, warn=lambda _: None)
        return asyncio.run(work)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of one task that the built-in author was sampled on."""
    folder = write_corpus(tmp_path_factory.mktemp("corpus"), [bench_row(TASK)])
    found = sample(folder, "builtin")
    assert (found.done, found.right, found.failed) == (1, 1, {})
    return folder


def test_right_episode_is_a_row_with_its_proof(sampled: Path) -> None:
    ((_, made),) = list(read_log(sampled / "episodes.jsonl"))
    (row,) = made.rows
    assert (made.source, row.kind, row.author) == ("builtin/0", Kind.SAMPLED, "builtin")
    (proof,) = read_solutions(sampled, read_tasks(sampled).good).good
    assert proof.kernel_sha256 == row.kernel_sha256


def test_episode_in_the_log_is_not_made_again(sampled: Path) -> None:
    before = (sampled / "episodes.jsonl").read_bytes()
    assert sample(sampled, "builtin").done == 1
    assert (sampled / "episodes.jsonl").read_bytes() == before


def test_more_episodes_are_added_to_those_that_there_are(sampled: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('"no kernel"\n"none"\n"none"\n')
    found = sample(sampled, f"scripted/{script}")
    assert (found.done, found.right) == (1, 0)
    assert found.skipped.total() == 1
    assert len(list(read_log(sampled / "episodes.jsonl"))) == 2


def test_model_that_gives_no_answer_is_no_row(sampled: Path, tmp_path: Path) -> None:
    script = tmp_path / "empty.jsonl"
    script.write_text("")
    found = sample(sampled, f"scripted/{script}")
    assert found.rows.total() == 0
