"""The least work of a task, from what one run of its reference did."""

from __future__ import annotations

from dataclasses import replace

from nki_agent.isa.dtype import DType
from nki_agent.task.record import Record, capped
from nki_agent.task.task import Output, ShapeSet, TensorArgument, Work
from nki_agent.task.tolerance import ToleranceClass

NARROW_BYTES = 2
"""Item size of the formats that the Tensor Engine takes in one pass."""

PRECISE = frozenset(
    {
        *(ToleranceClass.EX, ToleranceClass.IX, ToleranceClass.F1),
        *(ToleranceClass.F2, ToleranceClass.BM),
    }
)
"""Classes whose float32 products must be right to more than the 11 bits of a 16-bit operand. In the
others a kernel may multiply in 16 bits once and still be right, where sums or a residual even
errors out.
"""


def in_tolerated_formats(shapes: ShapeSet, tolerance: ToleranceClass) -> ShapeSet:
    """The same shapes, with float32 products in the shortest format that the class may forgive."""
    if tolerance in PRECISE:
        return shapes
    flops: dict[DType, int] = {}
    for dtype, number in shapes.work.matmul_flops_by_dtype.items():
        kept = DType.FLOAT16 if dtype.itemsize > NARROW_BYTES else dtype
        flops[kept] = flops.get(kept, 0) + number
    return replace(shapes, work=replace(shapes.work, matmul_flops_by_dtype=flops))


def make_work(
    record: Record, *, tensors: tuple[TensorArgument, ...], outputs: tuple[Output, ...]
) -> Work:
    """Bytes, matmul FLOPs and engine passes that no kernel can do without.

    Without a record of reads every tensor counts once.
    """
    num_bytes = sum(output.num_bytes for output in outputs)
    for tensor in tensors:
        read = tensor.num_elems
        if record.touched is not None:
            read = capped(record.touched, tensor.name, tensor.num_elems)
        elems = read
        if tensor.is_updated:
            elems += capped(record.written, tensor.name, tensor.num_elems) or tensor.num_elems
        num_bytes += elems * tensor.dtype.itemsize
    return Work(
        min_hbm_bytes=num_bytes,
        matmul_flops_by_dtype=_matmul_flops(record, outputs=outputs),
        elementwise_elems=_count_passed(record, tensors=tensors, outputs=outputs),
        reduction_depth=record.depth,
    )


def _matmul_flops(record: Record, *, outputs: tuple[Output, ...]) -> dict[DType, int]:
    """Where every real output is narrow, a kernel may multiply in that format too.

    PyTorch widens some operations inside (attention of 16-bit tensors, on the CPU); the least work
    does not.
    """
    real = [o.dtype for o in outputs if o.dtype.is_float]
    if not real or any(d.itemsize > NARROW_BYTES for d in real):
        return dict(record.matmul_flops)
    flops: dict[DType, int] = {}
    for dtype, number in record.matmul_flops.items():
        kept = dtype if dtype.itemsize <= NARROW_BYTES else real[0]
        flops[kept] = flops.get(kept, 0) + number
    return flops


def _count_passed(
    record: Record, *, tensors: tuple[TensorArgument, ...], outputs: tuple[Output, ...]
) -> int:
    """The largest tensor that an engine must read or write one by one.

    A matmul's operands stream through the tensor engine; its result leaves PSUM through another.
    """
    if record.only_moves:
        return 0
    sizes = [output.num_elems for output in outputs]
    for tensor in tensors:
        if record.touched is not None:
            sizes.append(capped(record.computed, tensor.name, tensor.num_elems))
        elif not record.has_matmul:
            sizes.append(tensor.num_elems)
    return max(sizes, default=0)
