"""`is_precise=False`: low-precision floats kept as float32."""

import ml_dtypes
import numpy as np

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.sim.execute import compile_program
from tests.kernels import body, traced

SMALL = 2.0**-12
KERNEL = body(
    f"""
out = nl.ndarray(x.shape, dtype=nl.{{kind}}, buffer=nl.shared_hbm)
t = nl.ndarray(x.shape, dtype=nl.{{kind}})
u = nl.ndarray(x.shape, dtype=nl.{{kind}})
nisa.dma_copy(dst=t, src=x)
nisa.memset(dst=u, value={1 + SMALL})
nisa.tensor_tensor(dst=u, data1=t, data2=u, op=nl.multiply)
nl.device_print("u", u)
nisa.dma_copy(dst=out, src=u)
return out
"""
)


def run(kind: DType, *, is_precise: bool) -> tuple[np.ndarray, np.ndarray]:
    """The result and what is printed, for ones."""
    source = KERNEL.replace("{kind}", kind.value)
    program = traced(source, [ArgumentSpec("x", (2, 3), DType.FLOAT32)])
    chip = load_chip(Target.TRN2)
    done = compile_program(program, chip, is_precise=is_precise).run(
        {"x": np.ones((2, 3), np.float32)}
    )
    return done.outputs[0], done.printed[0][1]


def test_low_precision_is_kept_in_every_step() -> None:
    for kind in (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT8_E4M3):
        for array in run(kind, is_precise=False):
            assert array.dtype == np.float32
            assert (array == 1 + SMALL).all()


def test_low_precision_is_rounded_otherwise() -> None:
    for array in run(DType.BFLOAT16, is_precise=True):
        assert array.dtype == ml_dtypes.bfloat16
        assert (array == 1).all()
