"""Time of tracing, decoding, validating, placing and simulating 40,000 small instructions.

Prints µs an instruction for each step, and their sum, beside plain NumPy doing the same arithmetic.
Run: python benchmarks/trace.py
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.memory.placement import place_program
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.stored import decode_reply, encode_reply
from nki_agent.program.validate import check_program
from nki_agent.sim.execute import compile_program

REPEATS = 20_000
KERNEL = f"""
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    u = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    for i in range({REPEATS}):
        nisa.tensor_scalar(dst=u[:, 0:16], data=t[:, 16:32], op0=nl.add, operand0=1.0)
        nisa.tensor_tensor(dst=t[:, 0:16], data1=u[:, 0:16], data2=t[:, 0:16], op=nl.add)
    nisa.dma_copy(dst=out, src=t)
    return out
"""


def main() -> None:
    chip = load_chip(Target.TRN2)
    x = np.ones((64, 64), np.float32)
    marks = [time.perf_counter()]
    reply = trace_source(KERNEL, [ArgumentSpec("x", x.shape, DType.FLOAT32)])
    marks.append(time.perf_counter())
    data = encode_reply(reply)
    program = decode_reply(data).program
    assert program is not None
    marks.append(time.perf_counter())
    assert check_program(program, chip) == []
    marks.append(time.perf_counter())
    place_program(program, chip)
    marks.append(time.perf_counter())
    executable = compile_program(program, chip)
    marks.append(time.perf_counter())
    result = executable.run({"x": x})
    marks.append(time.perf_counter())
    t = x.copy()
    u = np.empty_like(x)
    for _ in range(REPEATS):
        np.add(t[:, 16:32], np.float32(1.0), out=u[:, 0:16])
        np.add(u[:, 0:16], t[:, 0:16], out=t[:, 0:16])
    marks.append(time.perf_counter())
    assert np.array_equal(result.outputs[0], t)
    names = ("trace", "encode and decode", "validate", "place", "compile", "execute", "plain NumPy")
    each = [1e6 * (b - a) / (2 * REPEATS) for a, b in pairwise(marks)]
    for name, value in zip(names, each, strict=True):
        print(f"{name:<18} {value:6.2f} µs an instruction")
    tracing, execution = each[0] + each[1] + each[2], each[4] + each[5]
    print(f"tracing plus one execution {tracing + execution:.2f} µs (limit 12, goal 8)")
    print(f"ratio to plain NumPy {(tracing + execution) / each[-1]:.1f}")


if __name__ == "__main__":
    main()
