"""Candidates: what they depend on, and that their text is a task as a person writes it."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nki_agent.corpus.candidate import Candidate
from nki_agent.corpus.draw import draw_candidate, draw_candidates
from nki_agent.corpus.grammar import Grammar, read_grammar
from nki_agent.corpus.record import Family
from tests.source import ROOT

NUMBER = 500


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return read_grammar()


@pytest.fixture(scope="module")
def drawn(grammar: Grammar) -> list[Candidate]:
    return list(draw_candidates(grammar, root=0, number=NUMBER))


def shapes_of(candidate: Candidate) -> dict[str, dict[str, int]]:
    for node in ast.parse(candidate.source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHAPES":
            found: dict[str, dict[str, int]] = ast.literal_eval(node.value)
            return found
    raise AssertionError(candidate.id)


def test_candidate_depends_on_root_pattern_and_number_alone(
    grammar: Grammar, drawn: list[Candidate]
) -> None:
    one = drawn[123]
    pattern = grammar.patterns[one.pattern]
    alone = replace(grammar, patterns={pattern.name: pattern})
    assert draw_candidate(alone, pattern, root=0, index=one.index) == one
    other = draw_candidate(alone, pattern, root=1, index=one.index)
    assert other is not None
    assert other.source != one.source


def test_draw_gives_the_same_candidates_again(grammar: Grammar, drawn: list[Candidate]) -> None:
    assert list(draw_candidates(grammar, root=0, number=NUMBER)) == drawn


def test_draw_of_fewer_is_part_of_a_larger_one(grammar: Grammar, drawn: list[Candidate]) -> None:
    few = {c.id for c in draw_candidates(grammar, root=0, number=200)}
    assert few <= {c.id for c in drawn}


def test_draw_has_every_family_and_level(drawn: list[Candidate]) -> None:
    assert {c.family for c in drawn} == set(Family)
    assert {c.level for c in drawn} == {1, 2, 3}


def test_draw_hardly_ever_fails(drawn: list[Candidate]) -> None:
    assert len(drawn) > 0.95 * NUMBER


def test_draw_has_no_two_of_one_text(drawn: list[Candidate]) -> None:
    assert len({c.source for c in drawn}) == len(drawn)
    assert len({c.id for c in drawn}) == len(drawn)


def test_candidate_has_three_shape_sets_of_the_same_sizes(drawn: list[Candidate]) -> None:
    for candidate in drawn:
        shapes = shapes_of(candidate)
        assert list(shapes) == ["dev", "odd", "perf"]
        assert len({tuple(sizes) for sizes in shapes.values()}) == 1


def test_candidate_odd_sizes_mostly_differ_from_each_other(drawn: list[Candidate]) -> None:
    odd = [list(shapes_of(c)["odd"].values()) for c in drawn]
    assert sum(len(set(sizes)) == len(sizes) for sizes in odd) > 0.9 * len(odd)


def test_candidate_text_is_as_the_formatter_leaves_it(
    drawn: list[Candidate], tmp_path: Path
) -> None:
    for candidate in drawn:
        (tmp_path / f"{candidate.id}.py").write_text(candidate.source, "utf-8")
    config = ["--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--check", *config, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_candidate_that_computes_in_float32_rounds_its_results(grammar: Grammar) -> None:
    pattern = grammar.patterns["chain"]
    found = [draw_candidate(grammar, pattern, root=0, index=n) for n in range(30)]
    texts = [c.source for c in found if c is not None and "bfloat16[" in c.source]
    assert texts
    assert all(".float()" in t and ".to(torch.bfloat16)" in t for t in texts)


def test_candidate_that_updates_in_place_says_so(grammar: Grammar) -> None:
    pattern = grammar.patterns["moments"]
    found = [draw_candidate(grammar, pattern, root=0, index=n) for n in range(20)]
    texts = [c.source for c in found if c is not None]
    assert any("UPDATES" in t for t in texts)
    assert all(("UPDATES" in t) == (".copy_(" in t) for t in texts)
