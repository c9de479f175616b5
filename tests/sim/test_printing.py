"""`nl.device_print` keeps tensors as they are when it runs."""

import numpy as np
import pytest

from nki_agent.isa.dtype import DType
from nki_agent.sim import printout
from tests.sim.build import Array, Builder

FORMATS = [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT8_E4M3, DType.INT16]


def ramp(dtype: DType = DType.FLOAT32) -> Array:
    return np.arange(12).reshape(3, 4).astype(dtype.numpy_dtype)


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_print_is_a_copy_in_its_own_format(dtype: DType) -> None:
    builder = Builder()
    tile = builder.load("x", ramp(dtype))
    builder.add("device_print", {"tensor": tile}, print_prefix="before")
    builder.add("tensor_scalar", {"dst": tile, "data": tile, "operand0": 1.0}, op0="add")
    part = builder.view(tile, rows=(0, 1, 2), free=((2 * dtype.itemsize, 2),))
    builder.add("device_print", {"tensor": part}, print_prefix="after")
    builder.store(tile)
    executable = builder.compile()
    first, second = (executable.run(builder.arrays) for _ in range(2))
    assert first.outputs[0].tolist() == (ramp() + 1).tolist()
    for result in (first, second):
        assert [prefix for prefix, _ in result.printed] == ["before", "after"]
        before, after = (array for _, array in result.printed)
        assert before.dtype == after.dtype == dtype.numpy_dtype
        assert before.tolist() == ramp().tolist()
        assert after.tolist() == (ramp()[:2, ::2] + 1).tolist()
        assert result.num_unprinted == 0


def test_an_hbm_tensor_prints_too() -> None:
    builder = Builder()
    builder.add("device_print", {"tensor": builder.argument("x", ramp())}, print_prefix="x")
    ((prefix, array),) = builder.run().printed
    assert (prefix, array.tolist()) == ("x", ramp().tolist())


def test_prints_past_the_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printout, "PRINTED_BYTES_MAX", 2 * ramp().nbytes)
    builder = Builder()
    tile = builder.load("x", ramp())
    for number in range(5):
        builder.add("device_print", {"tensor": tile}, print_prefix=str(number))
    result = builder.run()
    assert [prefix for prefix, _ in result.printed] == ["0", "1"]
    assert result.num_unprinted == 3
