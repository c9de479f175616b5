"""Hidden sizes: decided by the seed, taken by the task, shown to nobody."""

from pathlib import Path

from nki_agent.base.seeds import rng_for
from nki_agent.bench.hidden import find_hidden, hide_task
from nki_agent.bench.suite import builtin_suite
from nki_agent.task.loader import load_task
from nki_agent.task.sizes_text import find_sizes, hide_odd, put_sizes

SUITE = builtin_suite()


def test_hidden_sizes_follow_the_seed_and_load(tmp_path: Path) -> None:
    task = SUITE.find_task("l2-mqa-decode-bf16")
    source = task.path.read_text()
    first, again, other = (hide_task(task, source, tmp_path, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first is not None
    assert list(tmp_path.iterdir()) == []
    sizes, known = find_sizes(first), find_sizes(source)
    assert sizes is not None
    assert known is not None
    assert sizes["dev"] == known["dev"]
    assert sizes["perf"] == known["perf"]
    assert sizes["odd"] not in (known["odd"], known["dev"])
    path = tmp_path / "hidden.py"
    path.write_text(first)
    assert load_task(path).odd is not None


def test_sizes_that_belong_together_are_found() -> None:
    def runs(sizes: dict[str, int]) -> bool:
        return sizes["E"] == sizes["H"] * sizes["D"]

    dev = {"E": 48, "H": 3, "D": 16, "M": 40}
    found = find_hidden(dev, runs, rng=rng_for(1, "together"))  # type: ignore[arg-type]
    assert found is not None
    assert found["E"] == found["H"] * found["D"]
    assert found != dev


def test_axis_of_one_element_is_drawn_only_where_the_task_has_one() -> None:
    dev = {"B": 2, "H": 3}
    drawn = [
        find_hidden(dev, lambda _: True, rng=rng_for(seed, "ones"), ones=frozenset({"B"}))
        for seed in range(40)
    ]
    assert {found["H"] for found in drawn if found} == {2, 3, 4, 5}
    assert 1 in {found["B"] for found in drawn if found}


def test_task_that_takes_no_other_sizes_has_none() -> None:
    assert find_hidden({"M": 4}, lambda _: False, rng=rng_for(1, "none")) is None


def test_only_the_sizes_of_a_file_change() -> None:
    source = '"""Doc."""\n\nSHAPES = {\n    "dev": {"M": 3},\n    "odd": {"M": 5},\n}\nX = 1\n'
    hidden = hide_odd(source)
    assert hidden == '"""Doc."""\n\nSHAPES = {\n    "dev": {"M": 3},\n}\nX = 1\n'
    assert hide_odd(hidden) == hidden
    assert put_sizes(source, {"dev": {"M": 3}, "odd": {"M": 5}}) == source
    for other in ("x = 1\n", "def f(:\n", "SHAPES = make()\n"):
        assert hide_odd(other) == other
