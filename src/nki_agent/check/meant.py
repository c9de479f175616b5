"""What other libraries call things that `nki` has under another name.

Law: a name is here only where it can mean one thing; a function that `nki` lacks is not.
"""

from __future__ import annotations

SAME_NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "mult": "multiply",
    "pow": "power",
    "neg": "negative",
    "recip": "reciprocal",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "swish": "silu",
    "fp32": "float32",
    "f32": "float32",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "u32": "uint32",
    "i8": "int8",
    "u8": "uint8",
}
"""Names of `nl` by what they are called elsewhere."""

INSTRUCTIONS = {
    "reduce_sum": "`nisa.tensor_reduce(dst=..., op=nl.add, data=..., axis=...)`",
    "reduce_max": "`nisa.tensor_reduce(dst=..., op=nl.maximum, data=..., axis=...)`",
    "reduce_min": "`nisa.tensor_reduce(dst=..., op=nl.minimum, data=..., axis=...)`",
    "tensor_add": "`nisa.tensor_tensor(dst=..., data1=..., data2=..., op=nl.add)`",
    "tensor_sub": "`nisa.tensor_tensor(dst=..., data1=..., data2=..., op=nl.subtract)`",
    "tensor_mul": "`nisa.tensor_tensor(dst=..., data1=..., data2=..., op=nl.multiply)`",
    "load": "`nisa.dma_copy(dst=tile, src=x)`",
    "store": "`nisa.dma_copy(dst=out, src=tile)`",
    "dma_load": "`nisa.dma_copy(dst=tile, src=x)`",
    "dma_store": "`nisa.dma_copy(dst=out, src=tile)`",
    "dma_start": "`nisa.dma_copy(dst=..., src=...)`",
    "fill": "`nisa.memset(dst=..., value=...)`",
}
"""Calls to write for instructions that `nisa` does not have."""

KEYWORDS = {
    "func": "op",
    "fn": "op",
    "activation": "op",
    "input": "data",
    "in_": "data",
    "inp": "data",
    "in0": "data1",
    "in1": "data2",
    "source": "src",
    "axes": "axis",
    "dim": "axis",
    "keepdim": "keepdims",
    "keep_dims": "keepdims",
    "val": "value",
    "fill_value": "value",
}
"""Parameters by what they are called elsewhere; they count where the call has the right one."""
