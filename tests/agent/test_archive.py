"""The user's own right kernels: faster ones likelier, and never an answer in an evaluation."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.archive import (
    Archive,
    Kept,
    bare_name,
    choose_archive,
    form_of,
    hash_archive,
    read_archive,
)
from nki_agent.agent.folder import RunFolder
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.tools import Shelf, Toolbox
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import ToolCall
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.agent.tiny import RIGHT, TASK, WRONG

SOFTMAX = '"""Softmax of rows."""\n\n\ndef softmax(x):\n    return x.exp() / x.exp().sum()\n'


def keep(name: str, *, percent: float = 10.0, **changes: str) -> Kept:
    kept = Kept(
        id=name,
        task=f"l1-{name}",
        task_hash=f"hash of {name}",
        form=f"form of {name}",
        target="trn2",
        about="Softmax of rows.",
        percent_of_bound=percent,
        source="import nki\n",
    )
    return msgspec.structs.replace(kept, **changes)


@pytest.fixture
def runs(tmp_path: Path, task: Task, judge: Judge) -> Path:
    """Two runs, of a right and of a wrong kernel, and a folder that is no run."""
    for name, source in (("right", RIGHT), ("wrong", WRONG)):
        run = RunFolder(tmp_path / "runs" / name)
        run.path.mkdir(parents=True)
        run.task.write_text(task.source)
        run.kernel.write_text(source)
        verdict = judge.judge(Kernel.from_text(source), task, root_seed=1)
        run.write_json(run.verdict, verdict)
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("")
    return tmp_path / "runs"


def test_only_right_kernels_of_whole_runs_are_kept(runs: Path, task: Task) -> None:
    (kept,) = read_archive(runs)
    assert (kept.task, kept.task_hash, kept.source) == (task.id, task.hash, RIGHT)
    assert kept.about == "y = x + 1 on a tensor of rank 3."
    (runs / "right" / "kernel.py").write_text(RIGHT + "# changed by hand\n")
    assert read_archive(runs) == ()


def test_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_archive(tmp_path / "none")


def test_draw_is_seeded_and_faster_kernels_are_likelier() -> None:
    kernels = [keep("fast", percent=80.0), keep("slow", percent=2.0)]
    firsts = Counter(Archive(kernels, root_seed=seed).find("softmax")[0].id for seed in range(200))
    assert firsts["fast"] > 170
    assert firsts["slow"] > 0
    same = [Archive(kernels, root_seed=7).find("softmax") for _ in range(2)]
    assert same[0] == same[1]


def test_kernel_is_found_by_words_and_by_its_id() -> None:
    archive = Archive([keep("softmax-rows"), keep("conv", about="A convolution.")], root_seed=1)
    assert [k.id for k in archive.find("a convolution")] == ["conv"]
    assert [k.id for k in archive.find("`softmax-rows`")] == ["softmax-rows"]
    assert archive.find("pooling") == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"task_hash": "HASH"},
        {"task": "l3-add_one-bf16"},
        {"form": "FORM"},
        {"target": "trn1"},
    ],
)
def test_what_could_answer_a_task_is_left_out(task: Task, changes: dict[str, str]) -> None:
    known = {"HASH": task.hash, "FORM": form_of(task.source)}
    wanted = {field: known.get(value, value) for field, value in changes.items()}
    kept = msgspec.structs.replace(keep("other"), **wanted)
    assert len(choose_archive([kept], target="trn2", root_seed=1, without=task)) == 0
    assert len(choose_archive([keep("other")], target="trn2", root_seed=1, without=task)) == 1


def test_form_ignores_names_sizes_and_words_but_not_operations() -> None:
    body = '    """Says."""\n    return left.exp() / left.exp().sum()\n'
    other = f'"""Another."""\n\n\ndef f(left):\n{body}'
    assert form_of(SOFTMAX) == form_of(other)
    assert form_of(SOFTMAX) != form_of(SOFTMAX.replace("exp", "log"))
    assert form_of("def f(x): return x") != form_of("def f(x): return x + 1")
    assert form_of("no python (") == form_of("no python (")


@pytest.mark.parametrize(
    ("task_id", "name"),
    [
        ("l1-relu-1d-bf16", "relu"),
        ("l2-softmax-rows-fp32", "softmax-rows"),
        ("rmsnorm", "rmsnorm"),
        ("l1-2d", "l1-2d"),
    ],
)
def test_variants_of_a_task_have_one_name(task_id: str, name: str) -> None:
    assert bare_name(task_id) == name


def test_archive_hash_follows_its_kernels() -> None:
    first, second = keep("a"), keep("b")
    assert hash_archive([first, second]) == hash_archive([second, first])
    assert hash_archive([first]) != hash_archive([second])


def test_tool_shows_a_kernel_and_is_only_offered_with_an_archive(
    task: Task, judge: Judge, runs: Path
) -> None:
    def make(archive: Archive | None) -> Toolbox:
        return Toolbox(
            OneJudge(judge, task), target=Target.TRN2, root_seed=1, shelf=Shelf(archive=archive)
        )

    kept = read_archive(runs)
    tools = make(choose_archive(kept, target="trn2", root_seed=1))
    call = ToolCall(id="1", name="find_kernels", arguments={"query": "tensor of rank"})
    text = asyncio.run(tools.call(call)).text
    assert f"{kept[0].id}  {task.id}, " in text
    assert RIGHT.strip() in text
    none = ToolCall(id="1", name="find_kernels", arguments={"query": "pooling"})
    assert "No kernel here fits `pooling`" in asyncio.run(tools.call(none)).text
    for archive in (None, choose_archive(kept, target="trn2", root_seed=1, without=task)):
        assert "find_kernels" not in [spec.name for spec in make(archive).specs]


def test_task_of_the_same_form_is_left_out_of_its_own_evaluation(
    tmp_path: Path, runs: Path
) -> None:
    path = tmp_path / "another_name.py"
    path.write_text(TASK.replace("add_one", "shift").replace("(2, 75, 16)", "(3, 40, 16)"))
    kept = read_archive(runs)
    assert len(choose_archive(kept, target="trn2", root_seed=1)) == 1
    assert len(choose_archive(kept, target="trn2", root_seed=1, without=load_task(path))) == 0
