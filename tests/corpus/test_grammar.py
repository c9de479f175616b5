"""The grammar's files: what is read, and how what cannot be is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.draw import draw_candidates
from nki_agent.corpus.flow import names_called
from nki_agent.corpus.grammar import read_grammar
from nki_agent.corpus.record import Family
from tests.source import ROOT

SMALL = """
size = [{ name = "rows", dev = [20, 40], odd = [21, 37], perf = [4096, 8192] }]
layout = [{ name = "matrix", axes = { M = "rows", N = "rows" } }]
operator = [
  { name = "relu", sets = ["activation"], words = "ReLU", code = "F.relu({x})", rough = 0 },
  { name = "tanh", sets = ["activation"], words = "tanh", code = "torch.tanh({x})" },
]

[[pattern]]
name = "unary"
family = "elementwise"
level = 1
title = ""
inputs = { x = "matrix" }
flow = "y = activation(x)"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text, "utf-8")
    return path


def test_grammar_that_is_shipped_has_every_family() -> None:
    grammar = read_grammar()
    assert {p.family for p in grammar.patterns.values()} == set(Family)


def test_grammar_of_a_user_stands_alone(tmp_path: Path) -> None:
    grammar = read_grammar(write(tmp_path, SMALL))
    found = {c.operators for c in draw_candidates(grammar, root=0, number=20)}
    assert found == {("relu",), ("tanh",)}


def test_grammar_may_be_a_folder_of_files(tmp_path: Path) -> None:
    head, _, tail = SMALL.partition("[[pattern]]")
    (tmp_path / "a.toml").write_text(f"[[pattern]]{tail}", "utf-8")
    (tmp_path / "b.toml").write_text(head, "utf-8")
    assert list(read_grammar(tmp_path).patterns) == ["unary"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("y = activation(x)", "y = activaton(x)", r"own.toml:15.*`activaton`[\s\S]*`activation`"),
        ('x = "matrix"', 'x = "matrx"', r"own.toml:\d+.*the layout `matrx`[\s\S]*`matrix`"),
        ('N = "rows"', 'N = "row"', r"own.toml:\d+.*the kind of size `row`[\s\S]*`rows`"),
        ('family = "elementwise"', 'family = "elementwize"', r"own.toml.*elementwize.*pattern"),
        ("level = 1", "levels = 1", r"own.toml.*levels"),
        ("y = activation(x)", "y = x", r"own.toml.*pattern `unary`.*`y = x`"),
        ('name = "tanh"', 'name = "relu"', "`relu` is stated twice"),
        ('sets = ["activation"], words = "tanh"', 'sets = ["relu"], words = "tanh"', "`relu` of"),
        ("size = [{", "size = [", "own.toml"),
        ('code = "torch.tanh({x})"', 'code = "torch.tanh({z})"', r"own.toml:\d+.*`z`"),
        ('code = "torch.tanh({x})"', 'code = "torch.tanh({x}"', r"own.toml:\d+.*`tanh`"),
    ],
)
def test_grammar_fault_is_named_with_its_file_and_the_nearest_name(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in SMALL
    with pytest.raises(UsageError, match=said):
        read_grammar(write(tmp_path, SMALL.replace(old, new)))


def test_grammar_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none"):
        read_grammar(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="holds no grammar"):
        read_grammar(tmp_path)


def test_grammar_of_the_guide_can_be_drawn_from(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/write-a-grammar.md").read_text("utf-8")
    text = guide.partition("```toml\n")[2].partition("```")[0]
    grammar = read_grammar(write(tmp_path, text))
    found = {c.operators for c in draw_candidates(grammar, root=0, number=20)}
    assert found == {("bias",), ("bias", "tanh")}


def test_grammar_operators_are_all_drawn_by_some_pattern() -> None:
    grammar = read_grammar()
    reached = {
        operator.name
        for pattern in grammar.patterns.values()
        for name in names_called(grammar.flows[pattern.name])
        for operator in grammar.operators_named(name, pattern)
    }
    assert set(grammar.operators) - reached == set()
