"""`data build`, `data stats` and `data lint` as a person calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.base.linefile import read_records
from nki_agent.corpus.freeze import read_frozen
from nki_agent.corpus.looked import SCHEMA, Looked
from nki_agent.corpus.stored import read_tasks
from tests.cli.calling import Called, call
from tests.cli.test_full_disk import run_on_disk
from tests.corpus.building import GRAMMAR

SMALL = ("--grammar", GRAMMAR, "--candidates", 9, "--tasks", 60, "--workers", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "corpus"
    called = call("data", "build", "--out", out, "--freeze", out.parent / "list.json", *SMALL)
    assert called.code == 0, called.err
    assert "tasks     " in called.out
    assert "rejected  " in called.out
    assert "frozen    not compared" in called.out
    return out


def test_build_tells_how_far_it_is_and_writes_the_list(folder: Path) -> None:
    frozen = read_frozen(folder.parent / "list.json")
    assert frozen is not None
    assert frozen.recipe.candidates == 9
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("---\nlicense:")


def test_build_over_a_corpus_is_a_mistake_of_the_command(folder: Path) -> None:
    called = call("data", "build", "--out", folder, *SMALL)
    assert called.code == 2
    assert "holds a corpus already" in called.err
    assert "hint:" in called.err


def test_stats_counts_what_is_there(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    called = call("data", "stats", folder, "--html", page)
    assert called.code == 0, called.err
    assert called.out.split()[1] == "tasks,"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    document = call("data", "stats", folder, "--json").document
    assert sum(document["by_split"].values()) == document["tasks"]


def test_stats_names_a_file_that_was_changed(folder: Path) -> None:
    card = folder / "README.md"
    before = card.read_bytes()
    card.write_bytes(before + b"more\n")
    try:
        called = call("data", "stats", folder)
    finally:
        card.write_bytes(before)
    assert called.code == 1
    assert "changed   README.md has the hash" in called.err


def test_lint_finds_nothing_in_what_was_built(folder: Path) -> None:
    called = call("data", "lint", folder)
    assert called.code == 0, called.out
    assert called.out.splitlines()[-1] == "faults    0"
    assert "250 tasks of benchmarks" in called.out


def test_lint_against_a_folder_finds_what_is_in_it(folder: Path, tmp_path: Path) -> None:
    source = read_tasks(folder).good[0].source
    (tmp_path / "8-kept-apart.py").write_text(source, encoding="utf-8")
    called = lint_against(folder, tmp_path)
    assert called.code == 1
    assert "the text of 8-kept-apart" in called.out


def lint_against(folder: Path, others: Path) -> Called:
    return call("data", "lint", folder, "--against", others, "--allow-unsandboxed")


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [12, 28])
def test_build_on_a_full_disk_says_what_is_kept(tmp_path: Path, kilobytes: int) -> None:
    ended = run_on_disk(
        tmp_path, kilobytes, "data", "build", "--out", tmp_path / "disk" / "out", *SMALL
    )
    assert ended.code == 4, ended.err
    assert "No space left on device" in ended.err
    assert "--resume" in ended.err
    assert "Traceback" not in ended.err
    (journal,) = ended.files(".build-*")
    kept = list(read_records(journal, Looked, schema=SCHEMA))
    assert kept
    assert [path for path in ended.files("*") if path.is_file()] == [journal]
