"""Element-wise functions of `nki.language` for which the chip has no single instruction.

`floor`, `ceil`, `trunc`: float32 becomes int32 to the nearest even, is compared with the input and
corrected by 1; numbers from 2**23 on are whole already and are taken from the input.
`sin`, `cos`, `tan`: the Scalar Engine's sine is valid within one turn, so whole turns are taken off
first, in three parts so that the products are exact. The error is that of moving the input by one
last place up to 25,000 radians, and grows from there; an infinite input gives no NaN.

Law: a new SBUF tile of the input's dtype (or `dtype=`); everything before it is float32.
Source: nki.language docstrings (0.6.0) for what they give. Which instructions AWS's own functions
take is not published; these are ours.
"""

from __future__ import annotations

import math

from nki_agent.isa.dtype import DType
from nki_agent.nki.current.allocation import (
    ISA,
    LANGUAGE,
    copy,
    public,
    require_dtype,
    tile_like,
)
from nki_agent.nki.current.tensor import NkiTensor

WHOLE_FROM = 2.0**23
"""From here on float32 has no fractions."""
TURN = 2 * math.pi
_FIRST = 201 / 2**5
_SECOND = 4059 / 2**21
TURN_PARTS = (_FIRST, _SECOND, TURN - _FIRST - _SECOND)
"""A turn as a sum; the first two have 8 and 12 bits, which leaves room for the number of turns."""


def _new(x: NkiTensor, dtype: DType = DType.FLOAT32) -> NkiTensor:
    return tile_like(x, dtype)


# -- rounding -----------------------------------------------------------------------------------


def _round(x: NkiTensor, is_wrong: str, correct: str) -> NkiTensor:
    """A float32 tile of the nearest whole numbers, by 1 lower or higher where they are wrong."""
    whole, nearest, excess = _new(x, DType.INT32), _new(x), _new(x)
    ISA["tensor_scalar"](
        dst=whole,
        data=x,
        op0=LANGUAGE["minimum"],
        operand0=WHOLE_FROM,
        op1=LANGUAGE["maximum"],
        operand1=-WHOLE_FROM,
    )
    ISA["tensor_copy"](dst=nearest, src=whole)
    ISA["tensor_tensor"](dst=excess, data1=nearest, data2=x, op=LANGUAGE[is_wrong])
    ISA["tensor_tensor"](dst=nearest, data1=nearest, data2=excess, op=LANGUAGE[correct])
    result, is_small = copy(x, DType.FLOAT32), _new(x, DType.UINT8)
    ISA["tensor_scalar"](
        dst=is_small,
        data=x,
        op0=LANGUAGE["abs"],
        operand0=0,
        op1=LANGUAGE["less"],
        operand1=WHOLE_FROM,
    )
    ISA["tensor_copy_predicated"](dst=result, src=nearest, predicate=is_small)
    return result


def _cast(x: NkiTensor, tile: NkiTensor, dtype: object) -> NkiTensor:
    kind = x.dtype if dtype is None else require_dtype(dtype, "`dtype`")
    return tile if tile.dtype == kind else copy(tile, kind)


def _is_whole(x: object) -> bool:
    return isinstance(x, NkiTensor) and x.dtype.is_integer


@public
def floor(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The largest whole number that is not above x."""
    return copy(x, dtype) if _is_whole(x) else _cast(x, _round(x, "greater", "subtract"), dtype)


@public
def ceil(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The smallest whole number that is not below x."""
    return copy(x, dtype) if _is_whole(x) else _cast(x, _round(x, "less", "add"), dtype)


@public
def trunc(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """X without its fraction: the floor of its magnitude, with its sign."""
    if _is_whole(x):
        return copy(x, dtype)
    size, sign = _new(x), _new(x)
    ISA["tensor_scalar"](dst=size, data=x, op0=LANGUAGE["abs"], operand0=0)
    ISA["tensor_scalar"](
        dst=sign,
        data=x,
        op0=LANGUAGE["less"],
        operand0=0.0,
        op1=LANGUAGE["multiply"],
        operand1=-2.0,
    )
    tile = tile_like(x, dtype)
    ISA["scalar_tensor_tensor"](
        dst=tile,
        data=sign,
        op0=LANGUAGE["add"],
        operand0=1.0,
        op1=LANGUAGE["multiply"],
        operand1=_round(size, "greater", "subtract"),
    )
    return tile


# -- trigonometry -------------------------------------------------------------------------------


def _take_off_turns(x: NkiTensor) -> NkiTensor:
    """A float32 tile of x less the nearest number of turns: within half a turn, or just outside."""
    turns, rest = _new(x, DType.INT32), _new(x)
    ISA["tensor_scalar"](dst=turns, data=x, op0=LANGUAGE["multiply"], operand0=1 / TURN)
    before = x
    for part in TURN_PARTS:
        ISA["scalar_tensor_tensor"](
            dst=rest,
            data=turns,
            op0=LANGUAGE["multiply"],
            operand0=-part,
            op1=LANGUAGE["add"],
            operand1=before,
        )
        before = rest
    return rest


def _sine(rest: NkiTensor, tile: NkiTensor) -> None:
    """The sine of what is left of a turn; rounding may have left it just outside."""
    inside = _new(rest)
    ISA["tensor_scalar"](
        dst=inside,
        data=rest,
        op0=LANGUAGE["minimum"],
        operand0=math.pi,
        op1=LANGUAGE["maximum"],
        operand1=-math.pi,
    )
    ISA["activation"](dst=tile, op=LANGUAGE["sin"], data=inside)


def _cosine(rest: NkiTensor, tile: NkiTensor) -> None:
    """cos(r) = sin(pi/2 - |r|)."""
    turned = _new(rest)
    ISA["tensor_scalar"](
        dst=turned,
        data=rest,
        op0=LANGUAGE["abs"],
        operand0=0,
        op1=LANGUAGE["subtract"],
        operand1=math.pi / 2,
        reverse1=True,
    )
    ISA["activation"](dst=tile, op=LANGUAGE["sin"], data=turned)


def sin(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The sine of any x; as an `op`, the Scalar Engine's function within half a turn."""
    tile = tile_like(x, dtype)
    _sine(_take_off_turns(x), tile)
    return tile


@public
def cos(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The cosine."""
    tile = tile_like(x, dtype)
    _cosine(_take_off_turns(x), tile)
    return tile


@public
def tan(x: NkiTensor, dtype: object = None) -> NkiTensor:
    """The tangent, as the sine times the reciprocal of the cosine."""
    rest = _take_off_turns(x)
    over, under = _new(x), _new(x)
    _sine(rest, over)
    _cosine(rest, under)
    ISA["reciprocal"](dst=under, data=under)
    tile = tile_like(x, dtype)
    ISA["tensor_tensor"](dst=tile, data1=over, data2=under, op=LANGUAGE["multiply"])
    return tile
