"""The least work of a task, from what one run of its reference did."""

from __future__ import annotations

from nki_agent.task.record import Record, capped
from nki_agent.task.task import Output, TensorArgument, Work


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
        matmul_flops_by_dtype=dict(record.matmul_flops),
        elementwise_elems=_count_passed(record, tensors=tensors, outputs=outputs),
        reduction_depth=record.depth,
    )


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
