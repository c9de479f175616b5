"""What is chosen for training: shares, lengths, splits; the same log gives the same files."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.chat import (
    ChatMessage,
    ChatRow,
    Kind,
    estimate_tokens,
    make_counter,
)
from nki_agent.corpus.making import Made
from nki_agent.corpus.publishing import Entry, cap, choose, publish, read_published
from nki_agent.corpus.record import CorpusTask, Split
from nki_agent.llm.protocol import Role
from tests.corpus.small import make_row

COUNTER = ("bytes/4", estimate_tokens)


def make_entry(number: int, *, family: str = "norm", tokens: int = 100) -> Entry:
    return Entry(
        id=f"t{number}/author/0",
        task=f"t{number}",
        kind=Kind.AUTHOR,
        split=Split.TRAIN,
        family=family,
        fault="",
        tokens=tokens,
        line=0,
        number=0,
    )


def make_chat(task: CorpusTask, *, kind: Kind = Kind.SINGLE_SHOT, text: str = "done") -> ChatRow:
    messages = (
        ChatMessage(role=Role.SYSTEM, content="rules"),
        ChatMessage(role=Role.USER, content="task"),
        ChatMessage(role=Role.ASSISTANT, content=text),
    )
    return ChatRow(
        id=f"{task.id}/{kind.value}/0",
        task=task.id,
        task_sha256=task.sha256,
        family=task.family,
        level=1,
        kind=kind,
        split=task.split,
        dialect="nki",
        target="trn2",
        author="builtin",
        messages=messages,
        tools=(),
        trained=(False, False, True),
        num_tokens=10,
        kernel_sha256="k" + task.id,
        prompt_hash="p",
    )


def write_log(folder: Path, rows: list[ChatRow]) -> None:
    lines = [
        msgspec.json.encode(
            Made(task=r.task, task_sha256=r.task_sha256, kind=r.kind, root_seed=0, rows=(r,))
        )
        for r in rows
    ]
    (folder / "episodes.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def test_no_group_has_more_than_its_share() -> None:
    entries = [make_entry(n, family="abcd"[n % 4] if n < 80 else "big") for n in range(110)]
    kept = cap(entries, share=0.25, group=lambda e: e.family)
    counts = {name: sum(e.family == name for e in kept) for name in ("a", "b", "c", "d", "big")}
    assert counts == {"a": 20, "b": 20, "c": 20, "d": 20, "big": 26}
    assert [e.id for e in kept] == [e.id for e in entries if e in kept]


def test_group_loses_at_most_half() -> None:
    entries = [make_entry(n, family="big" if n >= 5 else f"f{n}") for n in range(105)]
    kept = cap(entries, share=0.25, group=lambda e: e.family)
    assert sum(e.family == "big" for e in kept) == 50


def test_few_groups_are_left_as_they_are() -> None:
    entries = [make_entry(n, family="one" if n else "two") for n in range(10)]
    assert cap(entries, share=0.25, group=lambda e: e.family) == entries


def test_choice_does_not_depend_on_the_order_of_the_log() -> None:
    entries = [make_entry(n, family="abcde"[min(n % 9, 4)]) for n in range(90)]
    forth, _ = choose(entries)
    back, _ = choose(entries[::-1])
    assert forth == back[::-1]


def test_long_rows_are_left_out_and_counted() -> None:
    entries = [make_entry(1), replace(make_entry(2), tokens=4000)]
    chosen, left_out = choose(entries, tokens_max=1000)
    assert [e.id for e in chosen] == ["t1/author/0"]
    assert left_out == {"author: over 1000 tokens": 1}


def test_rows_go_to_the_split_of_their_task_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    tasks = [
        make_row(f"t{n}", f"source {n}", split=split)
        for n, split in enumerate((Split.TRAIN, Split.TEST, Split.TRAIN))
    ]
    write_log(tmp_path, [make_chat(task) for task in tasks[::-1]])
    stats = publish(tmp_path, tasks, counter=COUNTER)
    found = [row for _, row in read_published(tmp_path)]
    assert [row.task for row in found if isinstance(row, ChatRow)] == ["t0", "t2", "t1"]
    assert (stats.rows, stats.trained_kernels) == (3, 3)
    assert stats.by_split == {"test": 1, "train": 2}
    before = (tmp_path / "trajectories" / "train.jsonl").read_bytes()
    publish(tmp_path, tasks, counter=COUNTER)
    assert (tmp_path / "trajectories" / "train.jsonl").read_bytes() == before


def test_log_of_another_corpus_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, [make_chat(make_row("t0", "one text"))])
    with pytest.raises(UsageError, match="another corpus"):
        publish(tmp_path, [make_row("t0", "another text")], counter=COUNTER)
    assert not (tmp_path / "trajectories").exists()


def test_broken_line_of_the_log_is_named(tmp_path: Path) -> None:
    task = make_row("t0", "text")
    write_log(tmp_path, [make_chat(task)])
    with (tmp_path / "episodes.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(UsageError, match="line 2"):
        publish(tmp_path, [task], counter=COUNTER)


def test_tokens_are_counted_by_a_tokenizer_where_there_is_one(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "u": 1}, unk_token="u"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    name, count = make_counter(tmp_path)
    assert name == tmp_path.name
    assert count("a b a") == 3
    with pytest.raises(UsageError, match="no tokenizer"):
        make_counter(tmp_path / "elsewhere.json")


def test_short_row_is_kept_if_the_tokenizer_finds_it_short(tmp_path: Path) -> None:
    task = make_row("t0", "")
    write_log(tmp_path, [make_chat(task, kind=Kind.SHORT, text="import nki\n" * 100)])
    by_bytes = publish(tmp_path, [task], counter=COUNTER)
    assert by_bytes.rows == 0
    assert by_bytes.left_out == {"short: over 256 tokens in prompt or reply": 1}
    by_lines = publish(tmp_path, [task], counter=("lines", lambda text: text.count("\n")))
    assert by_lines.by_kind == {"short": 1}
