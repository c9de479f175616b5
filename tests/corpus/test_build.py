"""The same wish gives the same corpus, however it was built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.build import Built, Step
from nki_agent.corpus.freeze import find_difference
from nki_agent.corpus.linting import lint_corpus
from nki_agent.corpus.record import Reason, Split
from nki_agent.corpus.release import MANIFEST, TASKS, check_manifest, has_parquet, read_rejected
from nki_agent.corpus.stats import count_tasks
from nki_agent.corpus.stored import read_tasks
from tests.corpus.building import GRAMMAR, WISH, build_small, read_all
from tests.corpus.tasks import declared


@dataclass(frozen=True)
class Corpus:
    folder: Path
    built: Built


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus") / "made"
    return Corpus(folder=folder, built=build_small(folder))


def test_build_that_was_stopped_goes_on_to_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "again"

    def stop(step: Step) -> None:
        if step.done == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_small(out, step=stop)
    with pytest.raises(UsageError, match="--resume"):
        build_small(out)
    with pytest.raises(UsageError, match="something else"):
        build_small(out, wish=replace(WISH, goes_on=True, root=1))
    seen: list[int] = []
    built = build_small(out, step=lambda s: seen.append(s.done), wish=replace(WISH, goes_on=True))
    assert seen[0] == 12
    assert read_all(out) == read_all(corpus.folder)
    assert built.root_sha256 == corpus.built.root_sha256
    assert find_difference(built.frozen, corpus.built.frozen) is None


@pytest.mark.slow
def test_two_workers_make_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    build_small(tmp_path / "out", wish=replace(WISH, workers=2))
    assert read_all(tmp_path / "out") == read_all(corpus.folder)


def test_folder_that_holds_a_corpus_is_left_alone(corpus: Corpus) -> None:
    before = read_all(corpus.folder)
    with pytest.raises(UsageError, match="holds a corpus already"):
        build_small(corpus.folder)
    assert read_all(corpus.folder) == before


def test_grammar_with_an_unknown_operator_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    text = GRAMMAR.read_text(encoding="utf-8").replace("y = soft(h)", "y = sofd(h)")
    grammar = tmp_path / "bad.toml"
    grammar.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="sofd"):
        build_small(tmp_path / "out", wish=replace(WISH, grammar=grammar))
    assert not (tmp_path / "out").exists()


def test_benchmark_tasks_and_duplicates_are_turned_away_with_what_they_repeat(
    corpus: Corpus,
) -> None:
    rejected = read_rejected(corpus.folder)
    benchmark = [row for row in rejected if row.reason is Reason.BENCHMARK]
    assert any("l1-tanh-3d-bf16" in row.detail for row in benchmark)
    assert any(row.reason is Reason.STRUCTURAL_DUPLICATE for row in rejected)


def test_every_candidate_is_in_the_corpus_or_turned_away(corpus: Corpus) -> None:
    tasks = read_tasks(corpus.folder)
    ids = {task.id for task in tasks.good}
    away = {row.id for row in read_rejected(corpus.folder)}
    assert not tasks.broken
    assert not ids & away
    assert len(ids) <= WISH.tasks
    assert corpus.built.stats == count_tasks(tasks.good, read_rejected(corpus.folder))


def test_files_are_as_the_manifest_says_and_a_changed_one_is_named(
    corpus: Corpus, tmp_path: Path
) -> None:
    assert check_manifest(corpus.folder) == []
    for name, data in read_all(corpus.folder).items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    (tmp_path / TASKS).write_bytes(b"")
    (tmp_path / "README.md").unlink()
    faults = check_manifest(tmp_path)
    assert [fault.split()[0] for fault in faults] == ["README.md", TASKS]
    assert corpus.built.root_sha256 in (corpus.folder / MANIFEST).read_text(encoding="utf-8")


def test_parquet_holds_the_rows_of_the_lines(corpus: Corpus) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert has_parquet()
    tasks = {task.id: task for task in read_tasks(corpus.folder).good}
    found = {}
    for split in Split:
        for path in (corpus.folder / "data").glob(f"{split.value}-*.parquet"):
            for row in parquet.read_table(path).to_pylist():
                found[row["id"]] = (row["split"], row["source"], tuple(row["operators"]))
    assert found == {t.id: (t.split.value, t.source, t.operators) for t in tasks.values()}


def test_lint_of_what_was_built_finds_nothing(corpus: Corpus) -> None:
    tasks = read_tasks(corpus.folder).good
    found = lint_corpus(
        corpus.folder, tasks, against=(), tell=lambda _: None, allow_unsandboxed=False
    )
    assert found.faults == ()
    assert (found.tasks, found.known) == (len(tasks), 250)


def test_lint_finds_a_benchmark_task_and_a_graph_in_two_splits(corpus: Corpus) -> None:
    first = read_tasks(corpus.folder).good[0]
    twin = msgspec.structs.replace(first, id="c-twin", split=_other(first.split))
    source = declared("return torch.tanh(x) * 0.5")
    leak = msgspec.structs.replace(first, id="c-leak", source=source)
    found = lint_corpus(
        corpus.folder, (first, twin, leak), against=(), tell=print, allow_unsandboxed=False
    )
    assert any(f.startswith("c-leak: the graph of l1-tanh-3d-bf16 but") for f in found.faults)
    assert any(fault.startswith("the graph") and "and" in fault for fault in found.faults)


def _other(split: Split) -> Split:
    return Split.TEST if split is Split.TRAIN else Split.TRAIN
