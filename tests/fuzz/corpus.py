"""What fuzzing starts from: sound Programs with arguments of every kind, and kernel sources."""

from __future__ import annotations

import functools
from pathlib import Path

from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Program
from tests.cheats.trick import FOLDER
from tests.conformance.test_limits import END, ROWS, target_of, written_out
from tests.conformance.test_numerics import ROWS as VALUES
from tests.conformance.test_numerics import build
from tests.kernels import SOFTMAX, body

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target.TRN2
X = ArgumentSpec("x", (200, 96), DType.FLOAT32)
OUT = "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
LOOP = """
t = nl.ndarray((100, 96), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=t, src=x.ap([[96, 100], [1, 96]], scalar_offset=i))
    nisa.activation(dst=t, op=nl.exp, data=t, scale=0.5)
    nisa.dma_copy(dst=out.ap([[96, 100], [1, 96]], scalar_offset=i), src=t)
nl.fori_loop(0, 101, step, step=100)
return out
"""
REGISTERS = """
n = nl.ndarray((1, 1), dtype=nl.int32)
nisa.memset(dst=n, value=2)
count = nisa.register_alloc(0)
nisa.register_load(count, n)
one = nisa.register_alloc(1)
nisa.register_move(one, 3)
t = nl.load(x[0:100, :])
def step(i):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    def inner(j):
        with nl.no_reorder():
            nisa.tensor_copy(dst=t[:, 0:48], src=t[:, 48:96])
    nl.fori_loop(0, one, inner)
nl.fori_loop(0, count, step)
nisa.register_store(n, one)
nl.store(out[0:100, :], t)
nl.store(out[100:200, :], t)
return out
"""
WHILE = """
n = nl.ndarray((1, 1), dtype=nl.int32)
nisa.memset(dst=n, value=3)
flag = nisa.register_alloc(3)
t = nl.load(x[0:100, :])
def step(i):
    nisa.tensor_scalar(dst=n, data=n, op0=nl.subtract, operand0=1)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=0.5)
    nisa.register_load(flag, n)
    return flag
nl.while_loop(flag, step)
nl.store(out[0:100, :], t)
nl.store(out[100:200, :], t)
return out
"""
ROWS_BY_INDEX = """
rows = nl.ndarray((100, 1), dtype=nl.int32)
nisa.iota(rows, pattern=[[1, 1]], channel_multiplier=1)
t = nl.ndarray((100, 96), dtype=nl.float32)
nisa.dma_copy(dst=t, src=x.ap([[96, 100], [1, 96]], vector_offset=rows))
nl.store(out[0:100, :], t)
nl.store(out[100:200, :], t)
return out
"""
MATMUL = """
c = nl.shared_constant(np.eye(96, dtype=np.float32))
w = nl.load(c)
for i in range(2):
    t = nl.load(x[i * 100:(i + 1) * 100, :])
    turned = nl.ndarray((96, 100), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=t)
    moving = nl.ndarray((96, 100), dtype=nl.float32)
    nisa.tensor_copy(dst=moving, src=turned)
    p = nl.ndarray((100, 96), dtype=nl.float32, buffer=nl.psum)
    for half in range(2):
        nisa.nc_matmul(p, moving, w, accumulate=half > 0)
    s = nl.ndarray((100, 96), dtype=nl.float32)
    nisa.tensor_copy(dst=s, src=p)
    nl.store(out[i * 100:(i + 1) * 100, :], s)
return out
"""
CORES = """
me = nl.program_id(0)
t = nl.load(x[me * 100:(me + 1) * 100, :])
nl.store(out[me * 100:(me + 1) * 100, :], t)
nisa.core_barrier(out, (0, 1))
return out
"""
TILES = "t = nl.ndarray((128, 512), nl.float32)\np = nl.zeros((128, 512), nl.float32, nl.psum)\n"
FIXABLE = (
    "nisa.activaton(x, nl.exp, x)",
    "u = nl.tensor_copy",
    "nisa.tensor_copy(dst=x, source=x)",
    "nisa.register_move(x, imm=1)",
    "u = (x) is  not (1)",
    "nisa.tensor_tensor(x, x, x, op=np.add)",
    "nisa.tensor_reduce(x, 'add', x, 1)",
    "nisa.tensor_copy(x, x, engine='vector')",
    "nisa.tensor_copy(x, x, nisa.vector_engine)",
    "u = nl.zeros((1, 1), nl.int8, 'psum')",
    "u = nl.zeros((nl.par_dim(4), 1), nl.int8)",
    "for i in nl.affine_range(2, 4):\n    pass",
    "x[...] = nisa.reciprocal(x)",
    "t = nisa.reciprocal(t)",
    "p += nisa.nc_matmul(\n    t,  # one\n    t)",
    "u = t + t * 2.0",
    "t += p; t *= 2.0",
    "t[:, 0:4] = p[:, 0:4]",
)
BODIES = {
    "a loop": LOOP,
    "registers": REGISTERS,
    "a while loop": WHILE,
    "rows by index": ROWS_BY_INDEX,
    "a matmul": MATMUL,
    "two cores": CORES,
}


@functools.cache
def shaped_programs() -> dict[str, Program]:
    """Programs on x [200, 96] in float32, as the judge asks for them."""
    sources = {"softmax": SOFTMAX}
    for name, text in BODIES.items():
        grid = "\n\ngrid = (2,)\n" if name == "two cores" else ""
        sources[name] = body(OUT + text) + grid
    return {name: _traced(source, [X]) for name, source in sources.items()}


def _traced(source: str, arguments: list[ArgumentSpec], target: Target = TARGET) -> Program:
    reply = trace_source(source, arguments, target=target)
    assert reply.program is not None, [str(f) for f in reply.findings]
    return reply.program


@functools.cache
def row_programs() -> dict[str, Program]:
    """A Program for each instruction of the conformance rows: its limit, and on values."""
    found: dict[str, Program] = {}
    for row in ROWS:
        target = target_of(row)
        for number, call in enumerate(row["accept"]):
            source = body(written_out(call) + END, params="")
            found[f"{row['op']}: {row['law']} ({number})"] = _traced(source, [], target)
    for row in VALUES:
        found[f"{row['op']}: {row['law']} (values)"] = build(row).program()
    return found


@functools.cache
def sources() -> dict[str, str]:
    """Kernel sources by the name of what they come from."""
    found = {"softmax": SOFTMAX}
    found |= {name: body(OUT + text) for name, text in BODIES.items()}
    for part in range(0, len(FIXABLE), 6):
        found[f"fixable {part}"] = body(TILES + "\n".join(FIXABLE[part : part + 6]) + "\nreturn x")
    for folder in (FOLDER, ROOT / "examples" / "kernels", ROOT / "tests" / "builtin" / "golden"):
        for path in sorted((*folder.glob("*.py"), *folder.glob("*.txt"))):
            found[f"{folder.name}/{path.name}"] = path.read_text(encoding="utf-8")
    return found
