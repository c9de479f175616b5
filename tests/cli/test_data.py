"""`nki-agent data solve`, `trajectories`, `sample` and `verify`: what they say, and exit codes."""

from pathlib import Path

import pytest

from tests.cli.calling import call, write_script
from tests.corpus.small import REFUSED, bench_row, make_row, write_corpus

TASK = "l1-rsqrt-2d"


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One task with a solution and one without."""
    rows = [bench_row(TASK), make_row("inverse", REFUSED)]
    folder = write_corpus(tmp_path_factory.mktemp("corpus"), rows)
    found = call("data", "solve", folder, "--workers", 1, "--json")
    assert found.code == 0
    assert found.document == {
        "tasks": 2,
        "solved": 1,
        "unsolved": {"aten.eye: there is no rule for it": 1},
        "failed": {},
        "broken_rows": 0,
    }
    return folder


@pytest.fixture(scope="module")
def corpus(solved: Path) -> Path:
    """The same with what was made of it."""
    kinds = "repair,short"
    made = call("data", "trajectories", solved, "--workers", 1, "--kinds", kinds, "--json")
    assert made.code == 0
    assert made.document["stats"]["by_kind"] == {"repair": 2, "short": 1}
    return solved


def test_first_call_solves_what_can_be_solved(solved: Path) -> None:
    assert (solved / "solutions.jsonl").stat().st_size


def test_second_call_has_nothing_to_do(corpus: Path) -> None:
    again = call("data", "solve", corpus, "--workers", 1)
    assert again.code == 0
    assert "solved    1 of 2 tasks" in again.out
    assert "there is no rule for it" in again.out


def test_kinds_can_be_published_anew_with_a_limit_of_tokens(corpus: Path) -> None:
    made = call("data", "trajectories", corpus, "--kinds", "short", "--max-tokens", 600)
    assert made.code == 0
    assert "left out" in made.out
    assert "1 short" in made.out


def test_stored_kernels_are_right_again(corpus: Path) -> None:
    checked = call("data", "verify", corpus, "--sample", 1, "--workers", 1)
    assert checked.code == 0
    assert checked.out.startswith("right     1 of 1 kernel; seed ")


def test_kernel_that_is_not_right_is_exit_1(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes((corpus / "tasks.jsonl").read_bytes())
    text = (corpus / "solutions.jsonl").read_text().splitlines()[0]
    (tmp_path / "solutions.jsonl").write_text(text.replace("nl.rsqrt", "nl.sqrt") + "\n")
    checked = call("data", "verify", tmp_path, "--workers", 1)
    assert checked.code == 1
    assert f"wrong     {TASK}/" in checked.out


def test_model_without_a_good_episode_is_told(corpus: Path, tmp_path: Path) -> None:
    model = write_script(tmp_path, "no kernel", "none", "none")
    sampled = call("data", "sample", corpus, "--model", model, "--tasks", 1, "--workers", 1)
    assert sampled.code == 0
    assert "no row    1  no step comes further" in sampled.err


def test_broken_row_is_named_and_the_rest_is_solved(corpus: Path, tmp_path: Path) -> None:
    lines = (corpus / "tasks.jsonl").read_bytes()
    (tmp_path / "tasks.jsonl").write_bytes(b'{"schema":1,"id":"half"}\n' + lines)
    (tmp_path / "solutions.jsonl").write_bytes((corpus / "solutions.jsonl").read_bytes())
    solved = call("data", "solve", tmp_path, "--limit", 1)
    assert solved.code == 2
    assert "broken" in solved.err
    assert "tasks.jsonl:1" in solved.err
    assert "solved    1 of 1 task" in solved.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trajectories", "--kinds", "repairs"), "did you mean `repair`?"),
        (("trajectories", "--kinds", "sampled"), "`nki-agent data sample` makes it"),
        (("sample", "--model", "nobody/none"), "no model `nobody/none`"),
        (("sample", "--model", "builtin", "--tasks", "9"), "the corpus has 2"),
        (("solve", "--target", "trn9"), "no target `trn9`"),
        (("trajectories", "--tokenizer", "/nowhere"), "is no tokenizer"),
    ],
)
def test_wrong_option_is_exit_2_with_a_hint(
    corpus: Path, arguments: tuple[str, ...], words: str
) -> None:
    name, *options = arguments
    called = call("data", name, corpus, *options)
    assert called.code == 2
    assert words in called.err


@pytest.mark.parametrize("name", ["solve", "trajectories", "verify"])
def test_folder_without_a_corpus_is_exit_2(tmp_path: Path, name: str) -> None:
    called = call("data", name, tmp_path)
    assert called.code == 2
    assert "tasks.jsonl" in called.err
    assert "data build" in called.err


def test_corpus_without_solutions_says_what_makes_them(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, [bench_row(TASK)])
    for name in ("trajectories", "verify"):
        called = call("data", name, folder)
        assert called.code == 2
        assert "data solve" in called.err
