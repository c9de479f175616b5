"""A row of a trajectory that gives a benchmark task away is found."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from nki_agent.bench.suite import builtin_suite
from nki_agent.corpus.chat import ChatMessage, ChatRow, Kind
from nki_agent.corpus.linting import lint_corpus
from nki_agent.corpus.making import Made
from nki_agent.corpus.publishing import FOLDER
from nki_agent.corpus.record import CorpusTask, Family, Origin, Split
from nki_agent.llm.protocol import Role
from tests.corpus.small import make_row as make_task
from tests.corpus.tasks import declared

TANH_ROWS = declared("return torch.softmax(x.cos(), -1)")
BENCHMARK = builtin_suite().tasks[40]
TEXTS = {
    "names": f"As in {BENCHMARK.id}.",
    "quotes": builtin_suite().find_task("l2-huber-rows").path.read_text(encoding="utf-8"),
    "innocent": f"```python\n{TANH_ROWS}```",
}


def make_row(name: str, text: str) -> ChatRow:
    messages = (
        ChatMessage(role=Role.USER, content=text),
        ChatMessage(role=Role.ASSISTANT, content="done"),
    )
    return ChatRow(
        id=name,
        task="c-none",
        task_sha256="",
        family=Family.NORM,
        level=1,
        kind=Kind.CLIMB,
        split=Split.TRAIN,
        dialect="nki",
        target="trn2",
        author="builtin",
        messages=messages,
        tools=(),
        trained=(False, True),
        num_tokens=1,
        kernel_sha256="",
        prompt_hash="",
    )


def test_rows_that_name_or_quote_a_benchmark_task_are_found(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    rows = [msgspec.json.encode(make_row(name, text)) for name, text in TEXTS.items()]
    (folder / "train.jsonl").write_bytes(b"\n".join([*rows, b"{}", b""]))
    tasks: tuple[CorpusTask, ...] = ()
    found = lint_corpus(tmp_path, tasks, against=(), tell=print, allow_unsandboxed=False)
    leaks = [f for f in found.faults if "the corpus has no task" not in f]
    assert found.rows == len(TEXTS)
    assert any("train.jsonl:1: names: it names" in fault for fault in leaks)
    assert any("quotes: it quotes the reference of l2-huber-rows" in fault for fault in leaks)
    assert any("train.jsonl:4: no row of ours" in fault for fault in leaks)
    assert not any("innocent" in fault for fault in leaks)


def test_task_that_a_model_wrote_is_followed_in_another_process(tmp_path: Path) -> None:
    marked = f"import sys\n\nsys.was_here = True\n{TANH_ROWS}"
    task = msgspec.structs.replace(make_task("written", marked), origin=Origin.MODEL)
    found = lint_corpus(tmp_path, [task], against=(), tell=print, allow_unsandboxed=True)
    assert not hasattr(sys, "was_here")
    # It was followed there: its graph is known, and is not what the row says.
    assert any("written: its graph is" in fault for fault in found.faults), found.faults


def test_task_of_a_model_that_ends_its_process_is_named_and_the_rest_is_looked_at(
    tmp_path: Path,
) -> None:
    sources = {"ends": f"import os\n\nos._exit(3)\n{TANH_ROWS}", "stays": TANH_ROWS}
    tasks = [
        msgspec.structs.replace(make_task(name, source), origin=Origin.MODEL)
        for name, source in sources.items()
    ]
    found = lint_corpus(tmp_path, tasks, against=(), tell=print, allow_unsandboxed=True)
    assert any("ends: it cannot be followed" in fault for fault in found.faults)
    assert any("stays: its graph is" in fault for fault in found.faults)


def test_log_that_holds_what_is_no_row_or_of_no_task_is_named(tmp_path: Path) -> None:
    task = make_task("there", TANH_ROWS)
    (tmp_path / "solutions.jsonl").write_bytes(b'{"schema":1,"task":7}\n')
    made = Made(task="gone", task_sha256=task.sha256, kind=Kind.AUTHOR, root_seed=0)
    (tmp_path / "episodes.jsonl").write_bytes(msgspec.json.encode(made) + b"\n{")
    found = lint_corpus(tmp_path, [task], against=(), tell=print, allow_unsandboxed=True)
    assert any("solutions.jsonl:1: no Solution" in fault for fault in found.faults)
    assert any("episodes.jsonl:1: the corpus has no task `gone`" in f for f in found.faults)
    assert any("episodes.jsonl:2: no Made" in fault for fault in found.faults)
