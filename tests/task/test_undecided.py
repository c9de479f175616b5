"""Near ties of an index or of a code: either value is right, and no other."""

from pathlib import Path

import numpy as np
import pytest

from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.task.trial import Trial, compare_outputs, expected, make_trials
from nki_agent.task.undecided import accept_ties

SOURCE = """
import torch

SHAPES = {"dev": {"T": 60, "E": 20}}
INPUTS = {"x": "float32[T, E]"}
OUTPUTS = {"values": "float32[T, 2]", "indices": "int32[T, 2]"}
TOLERANCE = "IX"


def reference(x):
    values, indices = torch.topk(x, 2, dim=-1)
    return values, indices.to(torch.int32)
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    path = tmp_path / "top_two.py"
    path.write_text(SOURCE)
    return load_task(path)


def draw_with_tie(task: Task, gap: float) -> tuple[Trial, dict[str, np.ndarray]]:
    """Inputs of which row 3 has its two largest values `gap` apart."""
    trial = make_trials(task, 4)[0]
    inputs = trial.inputs(task)
    inputs["x"][3, 5] = np.float32(9.0)
    inputs["x"][3, 11] = np.float32(9.0 + gap)
    return trial, inputs


def is_right(task: Task, gap: float, indices: tuple[int, int]) -> bool:
    trial, inputs = draw_with_tie(task, gap)
    wanted = expected(task, inputs)
    actual = {
        "values": wanted["values"].astype(np.float32),
        "indices": wanted["indices"].copy(),
    }
    actual["indices"][3] = indices
    found = compare_outputs(task, trial, wanted, accept_ties(task, trial, inputs, wanted, actual))
    return all(c.right for c in found.values())


@pytest.mark.parametrize("gap", [0.0, 1e-6])
@pytest.mark.parametrize("indices", [(5, 11), (11, 5)])
def test_either_order_of_a_near_tie_is_right(
    task: Task, gap: float, indices: tuple[int, int]
) -> None:
    assert is_right(task, gap, indices)


@pytest.mark.parametrize("indices", [(5, 5), (11, 4), (0, 5)])
def test_other_index_at_a_near_tie_is_wrong(task: Task, indices: tuple[int, int]) -> None:
    assert not is_right(task, 1e-6, indices)


def test_clear_order_is_exact(task: Task) -> None:
    assert is_right(task, 0.1, (11, 5))
    assert not is_right(task, 0.1, (5, 11))


def test_many_differing_indices_are_wrong_at_once(task: Task) -> None:
    trial, inputs = draw_with_tie(task, 0.0)
    wanted = expected(task, inputs)
    actual = {"values": wanted["values"], "indices": wanted["indices"][:, ::-1].copy()}
    assert accept_ties(task, trial, inputs, wanted, actual)["indices"] is actual["indices"]


def test_other_classes_have_no_ties(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "exact.py"
    path.write_text(SOURCE.replace('"IX"', '"F2"'))
    exact = load_task(path)
    assert is_right(task, 0.0, (5, 11))
    assert is_right(exact, 0.0, (5, 11)) != is_right(exact, 0.0, (11, 5))


CODES = """
import torch

SHAPES = {"dev": {"M": 60, "N": 80}}
INPUTS = {"x": "float32[M, N]", "scale": "float32[M] positive"}
OUTPUTS = {"codes": "int8[M, N]"}
TOLERANCE = "Q1"


def reference(x, scale):
    return torch.round(x * 20 * scale[:, None]).clamp(-127, 127).to(torch.int8)
"""


@pytest.fixture
def quantise(tmp_path: Path) -> Task:
    path = tmp_path / "quantise.py"
    path.write_text(CODES)
    return load_task(path)


def is_code_right(task: Task, places: tuple[float, ...], *, step: int = 1) -> bool:
    """The first codes of row 0 are `step` more, where their reals are at these places from 3."""
    trial = make_trials(task, 4)[0]
    inputs = trial.inputs(task)
    inputs["scale"][0] = 1.0
    inputs["x"][0, : len(places)] = [(3.0 + place) / 20 for place in places]
    wanted = expected(task, inputs)
    actual = {"codes": wanted["codes"].copy()}
    actual["codes"][0, : len(places)] += np.int8(step)
    found = compare_outputs(task, trial, wanted, accept_ties(task, trial, inputs, wanted, actual))
    return found["codes"].right


def test_code_near_a_tie_may_be_one_step_off(quantise: Task) -> None:
    assert is_code_right(quantise, (0.5 - 1e-6, 0.5 - 1e-5))
    assert not is_code_right(quantise, (0.5 - 1e-6,), step=2)
    assert not is_code_right(quantise, (0.5 - 1e-6,), step=-1)


@pytest.mark.parametrize("place", [0.45, 0.3, 0.0])
def test_code_off_a_tie_is_exact(quantise: Task, place: float) -> None:
    assert not is_code_right(quantise, (place,))


def test_many_codes_of_a_row_may_be_ties_and_one_that_is_none_is_wrong(quantise: Task) -> None:
    assert is_code_right(quantise, (0.5 - 1e-6,) * 40)
    assert not is_code_right(quantise, (0.45,) * 5 + (0.5 - 1e-6,) * 35)
