"""Faults that must be refused: kernels that a laxer simulator runs and that fail on the chip."""

from __future__ import annotations

from nki_agent.verify.verdict import Stage
from tests.conformance.fault import Refusal, ones

DONE = """
out = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src={tile})
return out
"""


def stored(kernel: str, tile: str, shape: tuple[int, ...]) -> str:
    """A kernel body that returns one tile."""
    return kernel.strip("\n") + DONE.format(tile=tile, shape=shape)


REFUSED_FAULTS = (
    Refusal(
        law="accumulating on PSUM that no matmul started",
        kernel=stored(
            """
sums = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.psum)
for k in range(2):
    nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=nl.load(b), accumulate=True)
t = nl.copy(sums)
""",
            "t",
            (16, 8),
        ),
        inputs={"a": ones(64, 16), "b": ones(64, 8)},
        code="NK214",
        words=("accumulat", "psum"),
        stage=Stage.UNFIT,
        source="nki.isa.nc_matmul, accumulate: undefined on contents that no matmul wrote",
    ),
    Refusal(
        law="accumulating on PSUM that was filled",
        kernel=stored(
            """
sums = nl.zeros((16, 8), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=nl.load(b), accumulate=True)
t = nl.copy(sums)
""",
            "t",
            (16, 8),
        ),
        inputs={"a": ones(64, 16), "b": ones(64, 8)},
        code="NK214",
        words=("accumulat",),
        stage=Stage.UNFIT,
        source="nki.isa.nc_matmul, accumulate: a filled PSUM tile is not one that a matmul wrote",
    ),
    Refusal(
        law="reducing a middle axis",
        kernel=stored(
            """
sums = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_reduce(dst=sums, op=nl.add, data=nl.load(x), axis=1)
""",
            "sums",
            (128, 4),
        ),
        inputs={"x": ones(128, 3, 4)},
        code="NK308",
        words=("axis", "last"),
        source="nki.isa.tensor_reduce: the axes end at the last free axis",
    ),
    Refusal(
        law="a tile of 256 partitions",
        kernel=stored(
            """
t = nl.ndarray((256, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x)
""",
            "t",
            (256, 8),
        ),
        inputs={"x": ones(256, 8)},
        code="NK201",
        words=("partition", "128", "tiles of at most 128 rows"),
        source="nki.language: SBUF and PSUM have 128 partitions",
    ),
    Refusal(
        law="a moving tile of 1024 columns",
        kernel=stored(
            """
sums = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=nl.load(b))
t = nl.copy(sums)
""",
            "t",
            (64, 1024),
        ),
        inputs={"a": ones(128, 64), "b": ones(128, 1024)},
        code="NK305",
        words=("512", "free"),
        source="nki.isa.nc_matmul, Tile size: 512 on NeuronCore-v2 and v3",
    ),
    Refusal(
        law="a DMA that reads PSUM",
        kernel=stored(
            """
sums = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=nl.load(b))
""",
            "sums",
            (64, 64),
        ),
        inputs={"a": ones(128, 64), "b": ones(128, 64)},
        code="NK301",
        words=("psum", "sbuf", "tensor_copy"),
        source="nki.isa.dma_copy, since 0.3.0",
    ),
    Refusal(
        law="a tile larger than a partition of SBUF",
        kernel=stored(
            """
wide = nl.ndarray((128, 100000), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=wide[:, 0:8], src=x)
t = nl.copy(wide[:, 0:8])
""",
            "t",
            (128, 8),
        ),
        inputs={"x": ones(128, 8)},
        code="NK205",
        words=("SBUF", "bytes", "400000", "212984"),
        stage=Stage.UNFIT,
        source="NKI hardware constants: usable bytes of an SBUF partition",
    ),
    Refusal(
        law="live tiles that are larger than SBUF together",
        kernel=stored(
            """
tiles = []
for i in range(5):
    t = nl.ndarray((128, 12000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=1.0)
    tiles.append(t)
total = nl.load(x)
for t in tiles:
    nisa.tensor_tensor(dst=total, data1=total, data2=t[:, 0:8], op=nl.add)
""",
            "total",
            (128, 8),
        ),
        inputs={"x": ones(128, 8)},
        code="NK205",
        words=("SBUF", "largest live", "48000 bytes"),
        stage=Stage.UNFIT,
        source="NKI hardware constants: usable bytes of an SBUF partition",
    ),
    Refusal(
        law="a matmul result that crosses a PSUM bank",
        kernel=stored(
            """
sums = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=sums[:, 256:768], stationary=nl.load(a), moving=nl.load(b))
t = nl.copy(sums[:, 256:768])
""",
            "t",
            (64, 512),
        ),
        inputs={"a": ones(128, 64), "b": ones(128, 512)},
        code="NK204",
        words=("bank", "2048"),
        stage=Stage.UNFIT,
        source="nki.isa.nc_matmul: one result stays inside a bank of 2 KiB",
    ),
    Refusal(
        law="filling an int32 tile with a float",
        kernel=stored(
            """
t = nl.ndarray((128, 8), dtype=nl.int32, buffer=nl.sbuf)
nisa.memset(dst=t, value=2.5)
""",
            "t",
            (128, 8),
        ),
        inputs={"x": ones(128, 8)},
        code="NK302",
        words=("value", "int", "float"),
        source="nki.isa.memset: the value has the kind of the destination",
    ),
    Refusal(
        law="a bias with more than one column",
        kernel=stored(
            """
y = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
nisa.activation(dst=y, op=nl.exp, data=nl.load(x), bias=nl.load(b))
""",
            "y",
            (128, 64),
        ),
        inputs={"x": ones(128, 64), "b": ones(128, 64)},
        code="NK312",
        words=("bias", "[128, 1]"),
        source="nki.isa.activation: bias is a vector of shape (P, 1)",
    ),
    Refusal(
        law="an SBUF tile of one dimension",
        kernel=stored(
            "t = nl.ndarray((128,), dtype=nl.float32, buffer=nl.sbuf)\nnisa.dma_copy(dst=t, src=x)",
            "t",
            (128,),
        ),
        inputs={"x": ones(128)},
        code="NK203",
        words=("at least 2 dim", "(P, 1)"),
        source="nki.language.ndarray: on chip a tensor has a partition and a free dimension",
    ),
    Refusal(
        law="float32 and bfloat16 in one matmul",
        kernel=stored(
            """
sums = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
moving = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
nisa.dma_copy(dst=moving, src=b)
nisa.nc_matmul(dst=sums, stationary=nl.load(a), moving=moving)
t = nl.copy(sums)
""",
            "t",
            (64, 64),
        ),
        inputs={"a": ones(128, 64), "b": ones(128, 64)},
        code="NK302",
        words=("float32", "both", "cast one side"),
        source="nki.isa.nc_matmul: with one float32 operand the other is float32 or tfloat32",
    ),
    Refusal(
        law="a DMA transpose of float32 by the hardware descriptor engine",
        kernel=stored(
            """
t = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_transpose(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)
""",
            "t",
            (128, 16),
        ),
        inputs={"x": ones(16, 128)},
        code="NK302",
        words=("2-byte", "nc_transpose", "bf16"),
        source="nki.isa.dma_transpose: hwdge takes 2-byte dtypes only",
    ),
    *(
        Refusal(
            law=f"nl.{name}",
            kernel=stored(f"t = nl.{name}(nl.load(x), 2.0)", "t", (128, 8)),
            inputs={"x": ones(128, 8)},
            code="NK313",
            words=(name, hint),
            stage=Stage.REFUSED,
            source="notes of 0.3 and 0.4: divide, mod and fmod fail when compiled for a device",
        )
        for name, hint in (("divide", "reciprocal"), ("mod", "floor"), ("fmod", "trunc"))
    ),
    Refusal(
        law="a list comprehension",
        kernel=stored(
            """
t = nl.load(x)
parts = [t[:, i:i + 2] for i in range(0, 8, 2)]
y = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_tensor(dst=y, data1=parts[0], data2=parts[3], op=nl.add)
""",
            "y",
            (128, 2),
        ),
        inputs={"x": ones(128, 8)},
        code="NK103",
        words=("comprehension", "append"),
        stage=Stage.REFUSED,
        source="the NKI language is a subset of Python",
    ),
    Refusal(
        law="is with anything but None, True and False",
        kernel=stored("t = nl.load(x)\nif x.shape is x.dtype:\n    pass", "t", (128, 8)),
        inputs={"x": ones(128, 8)},
        code="NK108",
        words=("is", "=="),
        stage=Stage.REFUSED,
        source="migration notes: `is` is not part of the language; kernels use it with None",
    ),
    Refusal(
        law="rows of the tail that are never written",
        kernel="""
rows, cols = x.shape
out = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.shared_hbm)
for i in range(rows // 128):
    nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=nl.load(x[i * 128:(i + 1) * 128, :]))
return out
""",
        inputs={"x": ones(200, 8)},
        code="NK208",
        words=("unwritten", "output", "rows 128..199"),
        stage=Stage.UNFIT,
        source="nki.language.ndarray: contents are undefined until written",
    ),
    Refusal(
        law="live tensors at overlapping addresses",
        kernel=stored(
            """
first = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
second = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 16))
nisa.dma_copy(dst=first, src=x)
nisa.memset(dst=second, value=7.0)
""",
            "first",
            (128, 8),
        ),
        inputs={"x": ones(128, 8)},
        code="NK209",
        words=("overlap", "address"),
        stage=Stage.UNFIT,
        source="nki.language.ndarray, address",
    ),
)
