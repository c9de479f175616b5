"""MX data: quantising float tiles, and products of packed operands with their scales.

A packed element holds four codes of one row, the first in the lowest bits. A group of 8 partitions
by 4 codes shares the scale 2**(code - 127), code 255 being NaN; the scales of a quadrant of 32
partitions lie in the first 4 rows of the same quadrant of the scale view.

Law: operands are dequantised to float32 once for each instruction, then multiplied as in tensor.py.
The scale of a group is read off the exponent of its largest magnitude, at least 2**-127; values are
rounded to nearest even and saturate. Not documented: a group with infinity or NaN; its scale is
that of the exponent 128, infinity saturates, NaN stays.
Not modelled: a dequantised value outside of float32's range that the other operand would bring
back.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from nki_agent.isa.dtype import DType
from nki_agent.isa.microscaling import GROUP_PARTITIONS, PACK, QUADRANT, SCALE_PARTITIONS
from nki_agent.sim.axes import Axes
from nki_agent.sim.plan import Arg, Array
from nki_agent.sim.rounding import FLOAT, byte_values, encode, largest_value, round_float
from nki_agent.sim.site import UNSIGNED, Site
from nki_agent.sim.tensor import multiply_into_psum

ELEMENT = {
    DType.FLOAT8_E5M2_X4: DType.FLOAT8_E5M2,
    DType.FLOAT8_E4M3FN_X4: DType.FLOAT8_E4M3FN,
}
"""The format of one code where it has a byte of its own."""
LARGEST_EXPONENT = {DType.FLOAT8_E5M2: 15, DType.FLOAT8_E4M3FN: 8}
FRACTION_BITS = np.array(23, np.uint32)
EXPONENT = np.array(0x7F800000, np.uint32)
INVERSE_CODE = np.array(254, np.uint32)
"""The exponent field of 1 / scale is 254 - code."""
BYTE = UNSIGNED[1]
HALF = UNSIGNED[2]
NIBBLE_BITS = 4
NIBBLE = 0xF


def quantize_mx(site: Site) -> None:
    """Groups of `src` to packed codes and one scale each."""
    source_pattern = site.operand("src").pattern
    partitions, free = source_pattern.partitions, source_pattern.free_elems
    groups = (partitions // GROUP_PARTITIONS, free // PACK)
    walk = (groups[0], GROUP_PARTITIONS, groups[1], PACK)
    packed = site.operand("dst").dtype
    element = ELEMENT[packed]
    source, values, codes = site.scratch(walk), site.scratch(walk), site.scratch(walk, BYTE)
    scales = site.scratch(groups, UNSIGNED[4])
    site.copy(source.reshape(partitions, free), site.read("src", (partitions, free)))
    site.step(_find_scales, source, element, scales, values)
    site.step(_scale_down, source, scales, source)
    largest = np.array(largest_value(element), np.float32)
    site.step(np.clip, source, -largest, largest, source)
    work = (site.scratch(walk), site.scratch(walk))
    site.step(round_float, source, element, values, work)
    site.step(encode, values, element, codes)
    words = codes.reshape(partitions, free).view(packed.numpy_dtype)
    site.save("dst", words, words.shape, words.dtype)
    _save_scales(site, scales)


def _find_scales(source: Array, element: DType, scales: Array, work: Array) -> None:
    """The code of each group's scale: its largest exponent field less the format's, at least 0."""
    np.abs(source, work)
    # In two steps: the second one, over neighbours, is slow and has an eighth of the work left.
    rows = np.maximum.reduce(work, 1)
    np.maximum.reduce(rows, -1, out=scales.view(FLOAT))
    np.bitwise_and(scales, EXPONENT, scales)
    np.right_shift(scales, FRACTION_BITS, scales)
    less = np.array(LARGEST_EXPONENT[element] - 1, np.uint32)
    np.maximum(scales, less, out=scales)
    np.subtract(scales, less, out=scales)


def _scale_down(source: Array, scales: Array, out: Array) -> None:
    inverse = (INVERSE_CODE - scales) << FRACTION_BITS
    np.multiply(source, inverse.view(FLOAT)[:, None, :, None], out)


def _save_scales(site: Site, scales: Array) -> None:
    axes = _scale_axes(site, "dst_scale", scales.shape[0] // SCALE_PARTITIONS)
    if site.layout("dst_scale").is_carried:
        values = site.scratch(scales.shape)
        site.step(np.take, scale_values(), scales, None, values, "clip")
        site.save("dst_scale", values, values.shape, FLOAT, axes=axes)
        return
    codes = site.scratch(scales.shape, BYTE)
    site.copy(codes, scales)
    site.save("dst_scale", codes, codes.shape, BYTE, axes=axes)


def _scale_axes(site: Site, role: str, quadrants: int) -> Axes:
    """The walk over the rows of a scale view that hold scales."""
    (stride, _), *free = site.axes(role)
    return ((stride * QUADRANT, quadrants), (stride, SCALE_PARTITIONS), *free)


@cache
def scale_values() -> Array:
    """The float32 value of every scale code, NaN for 255."""
    values: Array = np.arange(256, dtype=BYTE).view(ml_dtypes.float8_e8m0fnu).astype(FLOAT)
    return values


def nc_matmul_mx(site: Site) -> None:
    """`dst (+)= stationary.T @ moving` of dequantised operands over partitions and codes."""
    stationary, moving = (_dequantise(site, role) for role in ("stationary", "moving"))
    multiply_into_psum(site, (stationary.T, moving), (stationary.shape[1], moving.shape[1]))


def _dequantise(site: Site, role: str) -> Array:
    """The operand's values, (4 * partitions, free): the codes of a partition are rows of it."""
    operand = site.operand(role)
    partitions, free = operand.pattern.partitions, operand.pattern.free_elems
    words = site.load(role, (partitions, free), operand.dtype.numpy_dtype)
    codes = site.scratch((partitions, PACK, free), BYTE)
    if operand.dtype in ELEMENT:
        whole = site.scratch((partitions, free), operand.dtype.numpy_dtype)
        site.copy(whole, words)
        site.copy(codes, whole.view(BYTE).reshape(partitions, free, PACK).transpose(0, 2, 1))
        table = byte_values(ELEMENT[operand.dtype])
    else:
        site.step(_split_nibbles, words, codes)
        table = _nibble_values()
    values = site.scratch(codes.shape)
    site.step(np.take, table, codes, None, values, "clip")
    groups = values.reshape(partitions // GROUP_PARTITIONS, GROUP_PARTITIONS * PACK, free)
    site.step(np.multiply, groups, _read_scales(site, role), groups)
    return values.reshape(partitions * PACK, free)


def _split_nibbles(words: Array, codes: Array) -> None:
    for index in range(PACK):
        shift, mask = (np.array(n, HALF) for n in (index * NIBBLE_BITS, NIBBLE))
        codes[:, index] = (words >> shift) & mask


@cache
def _nibble_values() -> Array:
    """The value of every 4-bit code."""
    codes = np.arange(1 << NIBBLE_BITS, dtype=BYTE)
    values: Array = codes.view(ml_dtypes.float4_e2m1fn).astype(FLOAT)
    return values


def _read_scales(site: Site, role: str) -> Array:
    """The scale of each group of the operand, (groups over partitions, 1, free)."""
    data, scale = site.operand(role).pattern, f"{role}_scale"
    shape = (data.partitions // GROUP_PARTITIONS, data.free_elems)
    axes = _scale_axes(site, scale, data.partitions // QUADRANT)
    values = site.scratch(shape)
    if site.layout(scale).is_carried:
        stored: Arg = site.load(scale, shape, FLOAT, axes=axes)
        site.copy(values, stored)
    else:
        codes = site.load(scale, shape, BYTE, axes=axes)
        site.step(np.take, scale_values(), codes, None, values, "clip")
    return values.reshape(shape[0], 1, shape[1])
