"""NK214: accumulation onto PSUM that no matmul has started."""

import pytest

from nki_agent.chip.spec import Target
from tests.memory.traced import HEAD_LINES, Placed, place_body

BODY = """
    o = nl.ndarray((16, 12), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((64, 16), dtype=nl.float32)
    y = nl.ndarray((64, 12), dtype=nl.float32)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    p = nl.ndarray((16, 12), dtype=nl.float32, buffer=nl.psum)
    {steps}
    s = nl.ndarray((16, 12), dtype=nl.float32)
    nisa.tensor_copy(dst=s, src=p)
    nisa.dma_copy(dst=o, src=s)
    return o
"""
FIRST_STEP = HEAD_LINES + 8


def place(*steps: str, target: Target = Target.TRN2) -> Placed:
    body = BODY.format(steps="\n    ".join(steps))
    return place_body(body, (64, 16), (64, 12), target=target)


def matmul(accumulate: str = "None", columns: str = "0:12") -> str:
    return (
        f"nisa.nc_matmul(dst=p[:, {columns}], stationary=x, moving=y[:, {columns}],"
        f" accumulate={accumulate})"
    )


@pytest.mark.parametrize("target", [Target.TRN2, Target.TRN3])
def test_accumulating_first_is_refused_on_every_chip(target: Target) -> None:
    placed = place(matmul("True"), matmul("True"), target=target)
    assert placed.codes[0] == "NK214"
    assert placed.findings[0].where[-1].line == FIRST_STEP


@pytest.mark.parametrize(
    "steps",
    [
        (matmul(), matmul()),
        (matmul("False"), matmul("True")),
        (matmul("False"), matmul()),
        (matmul(columns="0:8"), matmul(columns="4:12")),
        (matmul("False", "0:8"), matmul("False", "8:12"), matmul("True")),
    ],
)
def test_group_that_a_matmul_starts_is_good(steps: tuple[str, ...]) -> None:
    assert place(*steps).codes == []


def test_group_started_in_part_is_refused() -> None:
    placed = place(matmul("False", "0:8"), matmul("True"))
    assert placed.codes == ["NK214"]


def test_fill_with_zero_then_inferred_accumulation_is_good() -> None:
    assert place("nisa.memset(dst=p, value=0.0)", matmul(), matmul()).codes == []


def test_fill_with_zero_then_asked_accumulation_is_undefined_before_v4() -> None:
    steps = ("nisa.memset(dst=p, value=0.0)", matmul("True"))
    assert place(*steps).codes == ["NK214"]
    assert place(*steps, target=Target.TRN3).codes == []


def test_other_contents_then_inferred_accumulation_is_undefined_before_v4() -> None:
    steps = ("nisa.memset(dst=p, value=1.0)", matmul())
    assert place(*steps).codes == ["NK214"]
    assert place(*steps, target=Target.TRN3).codes == []


def test_equal_tiles_with_unequal_fills_are_told_apart() -> None:
    steps = (
        "nisa.memset(dst=p, value=0.0)",
        matmul(),
        "q = nl.ndarray((16, 12), dtype=nl.float32, buffer=nl.psum)",
        "nisa.memset(dst=q, value=1.0)",
        "nisa.nc_matmul(dst=q, stationary=x, moving=y)",
    )
    placed = place(*steps)
    assert placed.codes == ["NK214"]
    assert placed.findings[0].where[-1].line == FIRST_STEP + 4


def test_scaling_a_started_group_in_place_does_not_end_it() -> None:
    scale = "nisa.tensor_scalar(dst=p, data=p, op0=nl.multiply, operand0=2.0)"
    assert place(matmul(), scale, matmul("True")).codes == []


def test_transpose_on_the_tensor_engine_starts_a_group() -> None:
    steps = (
        "z = nl.ndarray((12, 16), dtype=nl.float32)",
        "nisa.memset(dst=z, value=1.0)",
        "nisa.nc_transpose(dst=p, data=z)",
        matmul("True"),
    )
    assert place(*steps).codes == []
