"""Views: shapes, strides and offsets of slices and reshapes, and what is refused."""

from __future__ import annotations

import pytest

from tests.kernels import body, f32, refused, traced

SHOW = "out = nl.ndarray(({count}, 8), dtype=nl.float32, buffer=nl.shared_hbm)"


def shape_of(view: str, *, allocate: str = "(128, 4, 64)", buffer: str = "nl.sbuf") -> str:
    """What a kernel sees as `(shape, strides, offset)` of a view of tensor `t`."""
    finding = refused(
        body(
            f"t = nl.ndarray({allocate}, dtype=nl.float32, buffer={buffer})\n"
            f"v = {view}\n"
            "raise ValueError(str((v.shape, v.strides, v.offset)))"
        ),
        [f32("x", 4, 4)],
    )
    return finding.what.removeprefix("the kernel raised ValueError: ")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("t[:, 1, :]", ((128, 64), (256, 1), 64)),
        ("t[:, 1:3, 8:16]", ((128, 2, 8), (256, 64, 1), 72)),
        ("t[0]", ((1, 4, 64), (256, 64, 1), 0)),
        ("t[:, 2, 5]", ((128, 1), (256, 1), 133)),
        ("t[32:64, 0]", ((32, 64), (256, 1), 8192)),
        ("t[..., 0:64:2]", ((128, 4, 32), (256, 64, 2), 0)),
        ("t[:, -1, -8:]", ((128, 8), (256, 1), 248)),
        ("t[nl.ds(0, 64), nl.ds(1, 2), :]", ((64, 2, 64), (256, 64, 1), 64)),
        ("t.reshape((128, 256))", ((128, 256), (256, 1), 0)),
        ("t.reshape((128, 2, -1))", ((128, 2, 128), (256, 128, 1), 0)),
        ("t.permute((0, 2, 1))", ((128, 64, 4), (256, 1, 64), 0)),
        ("t[:, 0:1, :].broadcast(1, 8)", ((128, 8, 64), (256, 0, 1), 0)),
        ("t.flatten_dims(1, 2)", ((128, 256), (256, 1), 0)),
        ("t.reshape_dim(2, (8, 8))", ((128, 4, 8, 8), (256, 64, 8, 1), 0)),
        ("t.expand_dim(1)", ((128, 1, 4, 64), (256, 1, 64, 1), 0)),
        ("t[:, 0:1].squeeze_dim(1)", ((128, 64), (256, 1), 0)),
        ("t.slice(2, 8, 24)", ((128, 4, 16), (256, 64, 1), 8)),
        ("t.select(1, 3)", ((128, 64), (256, 1), 192)),
        ("t.view(nl.bfloat16)", ((128, 4, 128), (512, 128, 1), 0)),
        ("t.ap(pattern=[[256, 128], [2, 16]], offset=3)", ((128, 16), (256, 2), 3)),
        (
            "t.rearrange(('p', 'h', ('a', 'b')), ('p', 'b', ('h', 'a')), {'a': 8})",
            ((128, 8, 32), (256, 1, 8), 0),
        ),
        (
            "t.rearrange(('p', 'h', ('a', 'b')), ('p', 'b', 'h', 'a'), {'a': 8})",
            ((128, 8, 4, 8), (256, 1, 64, 8), 0),
        ),
    ],
)
def test_on_chip_view_has_the_documented_layout(view: str, expected: object) -> None:
    assert shape_of(view) == str(expected)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("t[1]", ((4, 64), (64, 1), 256)),
        ("t[1, 2]", ((64,), (1,), 384)),
        ("t[1, 2, 3]", ((1,), (1,), 387)),
        ("t.permute((2, 1, 0))", ((64, 4, 128), (1, 64, 256), 0)),
        ("t.reshape((512, 64))", ((512, 64), (64, 1), 0)),
        ("t.ap(pattern=[[0, 128], [1, 64]], offset=64)", ((128, 64), (0, 1), 64)),
    ],
)
def test_hbm_view_drops_indexed_dimensions(view: str, expected: object) -> None:
    assert shape_of(view, buffer="nl.shared_hbm") == str(expected)


@pytest.mark.parametrize(
    ("view", "code"),
    [
        ("t[:, 4, :]", "NK202"),
        ("t[:, 0:5, :]", "NK202"),
        ("t[0:129]", "NK202"),
        ("t[:, 2:2, :]", "NK202"),
        ("t[:, :, ::-1]", "NK202"),
        ("t[0, 0, 0, 0]", "NK202"),
        ("t[:, None, :]", "NK106"),
        ("t[:, [0, 1], :]", "NK106"),
        ("t[t]", "NK114"),
        ("t.permute((1, 0, 2))", "NK210"),
        ("t.reshape((64, 512))", "NK210"),
        ("t.reshape((128, 100))", "NK210"),
        ("t[:, :, 0:32].reshape((128, 128))", "NK210"),
        ("t.broadcast(0, 2)", "NK210"),
        ("t.flatten_dims(0, 1)", "NK210"),
        ("t.ap(pattern=[[1, 128], [1, 4]])", "NK210"),
        ("t.ap(pattern=[[256, 128], [1, 257]])", "NK202"),
        ("t.ap(pattern=[[256, 128], [1, 4]], offset=254)", "NK202"),
        ("t.rearrange(('p', 'h', 'w'), ('p', ('w', 'h')))", "NK210"),
        ("t.indirect(t)", "NK311"),
        ("t.ap(pattern=[[256, 128], [1, 4]], vector_offset=t)", "NK210"),
    ],
)
def test_view_that_leaves_its_storage_is_refused(view: str, code: str) -> None:
    source = body(f"t = nl.ndarray((128, 4, 64), dtype=nl.float32, buffer=nl.sbuf)\nv = {view}")
    finding = refused(source, [f32("x", 4, 4)])
    assert finding.code == code
    assert str(finding.where[-1]) == "kernel.py:10"


@pytest.mark.parametrize(
    ("use", "code"),
    [
        ("float(t)", "NK110"),
        ("int(t)", "NK110"),
        ("bool(t)", "NK110"),
        ("[v for v in t]", "NK110"),
        ("list(t)", "NK110"),
        ("len(t)", "NK110"),
        ("np.asarray(t)", "NK110"),
        ("np.exp(t)", "NK110"),
        ("np.zeros(3)[t]", "NK110"),
        ("1.0 in t", "NK110"),
        ("range(t)", "NK110"),
        ("t == 0", "NK115"),
        ("0.5 != t", "NK115"),
        ("t == np.zeros(4)", "NK115"),
        ("t + 1", "NK115"),
        ("2.0 * t", "NK115"),
        ("t / t", "NK115"),
        ("-t", "NK115"),
        ("t @ t", "NK115"),
        ("t < t", "NK115"),
        ("t & t", "NK115"),
    ],
)
def test_use_that_needs_values_is_refused(use: str, code: str) -> None:
    source = body(f"t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)\nv = {use}")
    assert refused(source, [f32("x", 4, 4)]).code == code


def test_tensor_holds_no_array() -> None:
    source = body(
        "found = [v for name in dir(x) if not name.startswith('__')\n"
        "         for v in [getattr(x, name)] if isinstance(v, np.ndarray)]\n"
        "raise ValueError(len(found))"
    )
    assert refused(source, [f32("x", 4, 4)]).what.endswith("ValueError: 0")


def test_views_of_one_form_share_a_signature() -> None:
    source = body(
        "out = nl.ndarray((512, 64), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "for i in range(4):\n"
        "    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=x[i * 128:(i + 1) * 128, :])\n"
        "    nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=t)\n"
        "return out"
    )
    program = traced(source, [f32("x", 512, 64)])
    assert len(program.signatures) == 2
    assert [i.offsets for i in program.instructions()][2] == (0, 128 * 64 * 4)
