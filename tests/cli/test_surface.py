"""`check` and `verify` on the surface `isa`."""

from pathlib import Path

from nki_agent.bench.suite import TASKS
from tests.cli.calling import call, write_kernel
from tests.isa_kernels import LEAKY_RELU

TASK = TASKS / "l1-leaky-relu-2d.py"
OFF = LEAKY_RELU.replace("buffer=nl.sbuf, address=(0, place))", "buffer=nl.sbuf)")


def test_check_finds_what_is_off_the_surface(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, OFF)
    assert call("check", kernel).code == 0
    called = call("check", kernel, "--surface", "isa")
    assert called.code == 1
    assert "NK119" in called.out


def test_fix_leaves_what_is_off_the_surface_to_be_told(tmp_path: Path) -> None:
    called = call("check", write_kernel(tmp_path, OFF), "--surface", "isa", "--fix")
    assert (called.code, "NK119" in called.out) == (1, True)


def test_verify_draws_the_wrong_tile(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, LEAKY_RELU.replace("0.01", "0.02"))
    called = call("verify", kernel, "--task", TASK, "--seed", 1, "--surface", "isa")
    assert called.code == 1
    assert "got - expected" in called.out
    assert "got - expected" not in call("verify", kernel, "--task", TASK, "--seed", 1).out


def test_several_kernels_are_judged_on_the_surface(tmp_path: Path) -> None:
    (tmp_path / "off.py").write_text(OFF)
    kernels = (write_kernel(tmp_path, LEAKY_RELU), tmp_path / "off.py")
    called = call("verify", *kernels, "--task", TASK, "--surface", "isa", "--workers", 1)
    assert called.code == 1
    assert "refused" in called.out
    assert "right" in called.out
