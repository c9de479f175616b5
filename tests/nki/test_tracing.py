"""Tracing: entries, arguments, results, errors of kernel code, and equal bytes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current import recorder
from nki_agent.nki.current.tracing import ArgumentSpec, TraceRequest, trace, trace_source
from nki_agent.program.records import Access
from nki_agent.program.stored import encode_program
from tests.kernels import HEAD, SOFTMAX, body, f32, refused, traced

OUT = "out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("def kernel(x:\n", "NK101", "syntax"),
        (HEAD + "def kernel(x):\n    return x\n", "NK102", "no `@nki.jit`"),
        (
            HEAD + "@nki.jit\ndef a(x):\n    return x\n@nki.jit\ndef b(x):\n    return x\n",
            "NK102",
            "`a`, `b`",
        ),
        (body("return x", params="x, y"), "NK112", "y"),
        (body("return x", params=""), "NK112", "x [4, 4] float32"),
        (body("return x"), "NK112", "shared_hbm"),
        (body("return 3"), "NK112", "int"),
        (body("pass"), "NK112", "NoneType"),
        (body(OUT + "return out[0:2]"), "NK112", "a part"),
        (body("t = nl.ndarray((4, 4), dtype=nl.float32)\nreturn t"), "NK112", "sbuf"),
        (body("raise ValueError('why')"), "NK109", "ValueError: why"),
        (body("exit(3)"), "NK109", "SystemExit: 3"),
        (body("return kernel(x)"), "NK111", "recursion"),
        (body("return np.ones(1 << 62)"), "NK109", ""),
        (body(OUT + "return out") + "\ngrid = (3, 3)\n", "NK116", "grid"),
        (HEAD + "nisa.memset(None, 0)\n", "NK109", "outside of a kernel"),
        (body(OUT + "return out") + "\nkernel(1)\n", "NK109", "import time"),
        (HEAD + "import nki.lang\n", "NK109", "nki.lang"),
        (HEAD + "from nki.isa import tensor_copyy\n", "NK104", "tensor_copy"),
    ],
)
def test_kernel_file_with_a_fault_gives_one_finding(source: str, code: str, words: str) -> None:
    finding = refused(source, [f32("x", 4, 4)])
    assert finding.code == code, str(finding)
    assert words in str(finding)


def test_static_argument_is_a_plain_value() -> None:
    source = body(OUT + "assert flag is True and size == 3\nreturn out", params="x, flag, size")
    arguments = [f32("x", 4, 4), ArgumentSpec("flag", value=True), ArgumentSpec("size", value=3)]
    program = traced(source, arguments)
    assert [a.value for a in program.arguments] == [None, True, 3]


def test_updated_argument_may_be_returned() -> None:
    source = body("t = nl.load(x)\nnl.store(x, t)\nreturn x")
    spec = ArgumentSpec("x", (4, 4), DType.FLOAT32, access=Access.UPDATE)
    assert traced(source, [spec]).results[0].tensor == 0


def test_result_may_be_a_reshaped_whole_tensor() -> None:
    assert traced(body(OUT + "return out.reshape((2, 8))"), [f32("x", 4, 4)]).results[0].shape == (
        2,
        8,
    )


def test_helper_module_comes_from_the_request_only() -> None:
    files = {
        "kernel.py": HEAD + "from tools import width\n@nki.jit\ndef kernel(x):\n"
        "    return nl.ndarray((4, width()), dtype=nl.float32, buffer=nl.shared_hbm)\n",
        "tools.py": "def width():\n    return 7\n",
    }
    request = TraceRequest(
        files=files, main="kernel.py", arguments=(f32("x", 4, 4),), target=Target.TRN2
    )
    reply = trace(request)
    assert reply.program is not None
    assert reply.program.tensors[1].shape == (4, 7)
    assert "tools" not in sys.modules


def test_tile_size_is_known_at_import_time() -> None:
    source = HEAD + "WIDTH = nl.tile_size.gemm_moving_fmax\n" + body("raise ValueError(WIDTH)")
    for target, width in ((Target.TRN2, 512), (Target.TRN3, 4096)):
        finding = refused(source, [f32("x", 8, 8)], target=target)
        assert f"ValueError: {width}" in finding.what


def test_stack_of_an_import_holds_no_frames_of_python_itself() -> None:
    files = {
        "main.py": "import helper\n" + body("return x"),
        "helper.py": HEAD + "nl.zeros((1, 1))",
    }
    request = TraceRequest(
        files=files, main="main.py", arguments=(f32("x", 8, 8),), target=Target.TRN2
    )
    (finding,) = trace(request).findings
    assert [frame.file for frame in finding.where] == ["main.py", "helper.py"]


def test_tile_size_follows_the_target() -> None:
    source = body("raise ValueError(nl.tile_size.gemm_moving_fmax)")
    for target, size in ((Target.TRN1, 512), (Target.TRN3, 4096)):
        assert f"{size}" in refused(source, [f32("x", 4, 4)], target=target).what


def test_no_module_named_nki_remains_after_a_trace() -> None:
    traced(SOFTMAX, [f32("x", 128, 8)])
    assert not [name for name in sys.modules if name == "nki" or name.startswith("nki.")]


def test_constant_is_stored_once() -> None:
    source = body(
        "a = nl.shared_constant(np.eye(4, dtype=np.float32))\n"
        "b = nl.shared_identity_matrix(4, dtype=nl.float32)\n" + OUT + "return out"
    )
    program = traced(source, [f32("x", 4, 4)])
    assert len(program.constants) == 1


def test_equal_kernels_have_equal_bytes_in_another_process() -> None:
    here = encode_program(traced(SOFTMAX, [f32("x", 300, 64)]))
    script = (
        "import sys; from tests.kernels import *; from nki_agent.program.stored import *;"
        "traced(body('t = nl.load(x)\\nnl.exp(t)\\nreturn nl.ndarray((2, 2), dtype=nl.float32,"
        " buffer=nl.shared_hbm)'), [f32('x', 8, 8)]);"
        "sys.stdout.buffer.write(encode_program(traced(SOFTMAX, [f32('x', 300, 64)])))"
    )
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, timeout=50
    ).stdout
    assert there == here


def test_print_in_a_kernel_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    trace_source(body("print('hello')\n" + OUT + "return out"), [f32("x", 4, 4)])
    assert capsys.readouterr().out == ""


def test_a_program_that_grows_too_large_names_the_line_that_made_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "INSTRUCTIONS_MAX", 40)
    lines = """
    t = nl.load(x)
    for i in range(30):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    for i in range(20):
        nisa.activation(dst=t, op=nl.exp, data=t)
    return t
    """
    finding = refused(body(lines), [f32("x", 4, 4)])
    assert finding.code == "NK111"
    assert "more than 40 instructions, 30 of them from the loop" in finding.what
    assert "tensor_scalar" in body(lines).split("\n")[finding.where[-1].line - 1]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("wide = nl.ndarray((256, 4), dtype=nl.float32)", "tensor `wide` with shape"),
        ("nl.ndarray((256, 4), dtype=nl.float32)", "of the tensor that line 9 makes"),
        (
            "a, tile = 1, nl.ndarray((4, 4), dtype=nl.float32)\ntile[9]",
            "for the tensor that line 9 makes on",
        ),
        ("tile = nl.ndarray((4, 4), dtype=nl.float32)\ntile[9]", "tensor `tile` on dimension"),
        (
            "tile = nl.ndarray((4, 4), dtype=nl.float32)\ntile.permute((0,))",
            "`permute` of tensor `tile`",
        ),
        (
            "a = nl.ndarray((4, 4), dtype=nl.float32, name='t7')\na[9]",
            "Out-of-bound access for tensor `t7` on",
        ),
    ],
)
def test_message_calls_a_tensor_as_the_kernel_does(lines: str, words: str) -> None:
    assert words in str(refused(body(lines), [f32("x", 4, 4)]))
