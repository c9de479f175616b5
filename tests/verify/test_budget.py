"""What a kernel may ask of the simulator."""

from __future__ import annotations

import resource
from dataclasses import replace

import msgspec
import pytest

from nki_agent.task.task import Task
from nki_agent.verify.budget import (
    ELEMS_BASE,
    SCRATCH_BYTES,
    check_work,
    elems_max,
    memory_bytes_max,
    steps_max,
)
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.kernels import SOFTMAX, body, f32, traced

REPEAT = """
t = nl.load(x[0:128, :])
w = nl.ndarray((128, 32768), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=w, value=1.0)
for i in range({count}):
    nisa.tensor_copy(dst=w, src=w)
out = nl.ndarray((200, 96), dtype=nl.float32, buffer=nl.shared_hbm)
for i in range(0, 200, 100):
    nl.store(out[i:i + 100, :], nl.load(x[i:i + 100, :]))
return out
"""
BROADCAST = """
out = nl.ndarray((200, 96), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=x)
t = nl.ndarray((1, 1), dtype=nl.{dtype}, buffer=nl.hbm)
nisa.dma_copy(dst=t.broadcast(1, 1 << 33), src=x[0:1, 0:1].broadcast(1, 1 << 33))
return out
"""
SCRATCH = """
out = nl.ndarray((200, 96), dtype=nl.float32, buffer=nl.shared_hbm)
big = nl.ndarray(({rows}, 1024, 1024), dtype=nl.float32, buffer=nl.hbm)
nisa.dma_copy(dst=big[0, 0:200, 0:96], src=x)
nisa.dma_copy(dst=out, src=big[0, 0:200, 0:96])
return out
"""


def test_honest_kernel_stays_far_below_the_limit() -> None:
    for source in (SOFTMAX, body(REPEAT.format(count=100))):
        assert check_work(traced(source, [f32("x", 200, 96)]), elems_max=ELEMS_BASE // 4) is None


def test_repeated_work_is_unfit_and_names_the_instruction(judge: Judge, softmax: Task) -> None:
    count = elems_max(softmax.dev) // (128 * 32768) + 1
    verdict = judge.judge(Kernel.from_text(body(REPEAT.format(count=count))), softmax, root_seed=1)
    assert verdict.stage is Stage.UNFIT
    finding = next(d for d in verdict.diagnostics if d.code == "NK117")
    assert "tensor_copy" in finding.hint
    assert str(elems_max(softmax.dev)) in str(finding)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_instruction_that_repeats_one_element_for_ever_is_unfit(
    judge: Judge, softmax: Task, dtype: str
) -> None:
    source = body(BROADCAST.format(dtype=dtype))
    verdict = judge.judge(Kernel.from_text(source), softmax, root_seed=1)
    assert verdict.stage is Stage.UNFIT
    assert "NK117" in [d.code for d in verdict.diagnostics]


def test_matmul_counts_its_multiply_adds() -> None:
    text = """
a = nl.load(x)
p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=p, stationary=a[:, 0:128], moving=a)
return nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
"""
    program = traced(body(text), [f32("x", 128, 512)])
    matmul = program.bodies[0][-1]
    count = ELEMS_BASE // (128 * 128 * 512 // 64)
    for repeats, is_good in ((count // 2, True), (count, False)):
        repeated = msgspec.structs.replace(program, bodies=((matmul,) * repeats,))
        assert (check_work(repeated, elems_max=ELEMS_BASE) is None) == is_good


def test_larger_task_may_take_more(softmax: Task) -> None:
    tensors = tuple(replace(t, shape=(4096, 4096)) for t in softmax.dev.tensors)
    larger = replace(softmax.dev, arguments=tensors)
    assert elems_max(larger) > 8 * elems_max(softmax.dev)
    assert steps_max(larger) > 8 * steps_max(softmax.dev)


LOOP = """
out = nl.ndarray((200, 96), dtype=nl.float32, buffer=nl.shared_hbm)
wide = nl.ndarray((128, 16384), dtype=nl.bfloat16, buffer=nl.sbuf)
nisa.memset(dst=wide, value=1.0)

def again(i):
    nisa.activation(dst=wide, data=wide, op=nl.gelu)

nl.fori_loop(0, 1 << 30, again)
for i in range(0, 200, 100):
    nl.store(out[i:i + 100, :], nl.load(x[i:i + 100, :]))
return out
"""


def test_endless_dear_loop_ends_in_good_time(judge: Judge, softmax: Task) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    verdict = judge.judge(Kernel.from_text(body(LOOP)), softmax, root_seed=1)
    assert "NK111" in [d.code for d in verdict.diagnostics], verdict.diagnostics
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 30


@pytest.mark.parametrize("rows", [SCRATCH_BYTES // 2**22 + 8, 2**13])
def test_scratch_over_the_limit_is_unfit(judge: Judge, softmax: Task, rows: int) -> None:
    assert memory_bytes_max(softmax.dev) < SCRATCH_BYTES + 2**22
    source = body(SCRATCH.format(rows=rows))
    verdict = judge.judge(Kernel.from_text(source), softmax, root_seed=1)
    assert verdict.stage is Stage.UNFIT
    assert [d.code for d in verdict.diagnostics] == ["NK114"]
