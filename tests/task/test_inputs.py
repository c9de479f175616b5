import random  # noqa: TID251 - user code may draw from it

import numpy as np
import pytest
import torch

from nki_agent.task.inputs import make_inputs_function, seeded
from nki_agent.task.userfile import read_user_file
from tests.task.conftest import Load, Write

SOURCES = {
    "rng": "def inputs(rng): return [rng.random(3)]",
    "seed": "import numpy as np\ndef inputs(seed): return [np.array([seed])]",
    "numpy": "import numpy as np\ndef inputs(): return [np.random.rand(3)]",
    "python": "import random\ndef inputs(size=3): return [[random.random() for _ in range(size)]]",
    "torch": "import torch\ndef inputs(**options): return (torch.rand(3).tolist(),)",
}


@pytest.mark.parametrize("case", SOURCES)
def test_inputs_function_follows_the_seed_however_it_draws(write: Write, case: str) -> None:
    user = read_user_file(write(SOURCES[case]))
    function = make_inputs_function(user, user.module.inputs)
    first, again, other = (str(function(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_seeding_leaves_the_global_generators_as_they_were() -> None:
    def draw_all() -> list[float]:
        return [random.random(), np.random.random(), torch.rand(()).item()]  # noqa: NPY002 - legacy

    with seeded(5):
        first = draw_all()
        with seeded(7):
            draw_all()
        second = draw_all()
    with seeded(5):
        assert [draw_all(), draw_all()] == [first, second]


def test_arguments_by_name_reach_the_reference_by_name(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(*, x, scale):
            return x * scale

        def inputs(rng):
            return {"scale": 2.0, "x": rng.random((2, 3), dtype=np.float32)}
    """)
    assert [a.name for a in task.arguments] == ["scale", "x"]


def test_function_that_ignores_the_seed_gets_drawn_values(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(x, y):
            return x + y

        def inputs():
            fixed = np.random.default_rng(0)
            loose = np.random.default_rng()
            return [
                fixed.standard_normal((9, 5), dtype=np.float32),
                loose.standard_normal((9, 5), dtype=np.float32),
            ]
    """)
    assert any("gives `x` alike under every seed" in note for note in task.notes)
    assert any("does not follow the seed for `y`" in note for note in task.notes)


def test_zeros_state_a_shape_and_need_no_note(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(x):
            return np.exp(x)

        def inputs():
            return [np.zeros((9, 5), np.float32)]
    """)
    assert task.notes == ()


def test_varying_static_argument_is_fixed_with_a_note(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(x, scale):
            return x * scale

        def inputs(rng):
            return [rng.standard_normal((9, 5), dtype=np.float32), float(rng.random())]
    """)
    assert any("`scale` varies with the seed" in note for note in task.notes)


def test_variable_arguments_are_numbered(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(x, *rest):
            return x + rest[0] * rest[1]

        def inputs(rng):
            return [rng.standard_normal((9, 5), dtype=np.float32) for _ in range(3)]
    """)
    assert [a.name for a in task.arguments] == ["x", "rest_0", "rest_1"]


def test_builtin_without_a_signature_is_a_reference(load_torch: Load) -> None:
    task = load_torch("""
        reference = torch.add

        def inputs():
            return [torch.randn(2, 3), torch.randn(2, 3)]
    """)
    assert [a.name for a in task.arguments] == ["x0", "x1"]
