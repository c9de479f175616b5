"""Kernels on several ranks in the user's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.calling import run

KERNEL = """
import nki.collectives as ncc


@nki.jit
def gather(x, scale=1.0):
    out = nl.ndarray((2 * x.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nl.device_print("tile", tile)
    nl.store(half, tile)
    ncc.all_gather([half], [out], ncc.ReplicaGroup([[0, 1]]), 0)
    return out


"""


def test_ranks_of_a_script_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "a, b = nki.simulate(gather).ranks([(x,), (10 * x,)])\n"
        "assert type(a) is np.ndarray and (a == np.concatenate([x, 10 * x])).all(), a\n"
        "assert (a == b).all()\n"
        "a, b = nki.simulate(gather).ranks([(x, 2.0), {'x': x, 'scale': 2.0}])\n"
        "assert (a == 2 * np.concatenate([x, x])).all(), a\n"
    )
    assert run(tmp_path, KERNEL + text) == 0
    assert "[rank 1] tile" in capsys.readouterr().out


def test_ranks_get_torch_for_torch_and_update_arguments(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "import nki.collectives as ncc\n"
        "@nki.jit\n"
        "def total(x):\n"
        "    ncc.all_reduce([x], [x], ncc.ReplicaGroup([[0, 1]]), nl.add)\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n"
        "    return out\n"
        "ones = [torch.ones(2, 3, dtype=torch.bfloat16) for _ in range(2)]\n"
        "results = nki.simulate(total).ranks([(t,) for t in ones])\n"
        "assert all((r == 2).all() and r.dtype == torch.bfloat16 for r in results)\n"
        "assert all((t == 2).all() for t in ones)\n"
    )
    assert run(tmp_path, text) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("gather(x)", ["NK403", "rank 1", "ranks("]),
        ("nki.simulate(gather).ranks([(x,), (x[:2],)])", ["NK112", "[2, 4]", "of rank 1"]),
        ("nki.simulate(gather).ranks([(x,), (x, 2.0)])", ["NK112", "`scale` = 2.0"]),
        ("nki.simulate(gather).ranks([x, x])", ["NK112", "a tuple"]),
        ("nki.simulate(gather).ranks([])", ["NK112", "none"]),
        ("nki.simulate(gather).ranks([(x,)] * 3)", ["NK308", "rank 2"]),
    ],
)
def test_ranks_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: str, words: list[str]
) -> None:
    assert run(tmp_path, KERNEL + call + "\n") == 1
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
