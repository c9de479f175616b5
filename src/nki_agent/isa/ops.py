"""Arithmetic-logic operators and activation functions.

Sources: nki.api.shared "Supported Math Operators" and "Supported Activation Functions" (NKI 0.6.0,
with the engine column of the 2.26 table); valid ranges from the same page.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nki_agent.isa.enums import Engine


class Family(StrEnum):
    """Operators of one instruction must be of one family."""

    ARITHMETIC = "arithmetic"
    BITVEC = "bitvec"


@dataclass(frozen=True, slots=True)
class AluOp:
    """One operator of the Vector, Scalar and GpSimd engines."""

    name: str
    family: Family
    engines: tuple[Engine, ...]
    is_reduction: bool = False
    is_unary: bool = False
    is_commutative: bool = True
    first_generation: int = 2
    only_in: str | None = None
    """The one instruction that takes it; None where any does."""


_V = (Engine.VECTOR,)
_VG = (Engine.VECTOR, Engine.GPSIMD)
_VGS = (Engine.VECTOR, Engine.GPSIMD, Engine.SCALAR)
_A, _B = Family.ARITHMETIC, Family.BITVEC

ALU_OPS: dict[str, AluOp] = {
    op.name: op
    for op in (
        AluOp("add", _A, _VGS, is_reduction=True),
        AluOp("multiply", _A, _VGS, is_reduction=True),
        AluOp("subtract", _A, _VG, is_reduction=True, is_commutative=False),
        AluOp("maximum", _A, _V, is_reduction=True),
        AluOp("minimum", _A, _V, is_reduction=True),
        AluOp("abs_max", _A, _V, first_generation=4),
        AluOp("abs_min", _A, _V, first_generation=4),
        AluOp("equal", _A, _V),
        AluOp("not_equal", _A, _V),
        AluOp("less", _A, _V, is_commutative=False),
        AluOp("less_equal", _A, _V, is_commutative=False),
        AluOp("greater", _A, _V, is_commutative=False),
        AluOp("greater_equal", _A, _V, is_commutative=False),
        AluOp("logical_and", _A, _V, is_reduction=True),
        AluOp("logical_or", _A, _V, is_reduction=True),
        AluOp("logical_xor", _A, _V, is_reduction=True),
        AluOp("logical_not", _A, _V, is_unary=True),
        AluOp("power", _A, (Engine.GPSIMD,), is_commutative=False),
        AluOp("rsqrt", _A, (Engine.GPSIMD, Engine.SCALAR), is_unary=True),
        AluOp("reciprocal", _A, (Engine.VECTOR, Engine.SCALAR), is_unary=True),
        AluOp("abs", _A, (Engine.VECTOR, Engine.SCALAR), is_unary=True),
        AluOp("bypass", _A, _V, is_unary=True),
        AluOp("average", _A, (Engine.GPSIMD,), only_in="tensor_partition_reduce"),
        AluOp("bitwise_and", _B, _V, is_reduction=True),
        AluOp("bitwise_or", _B, _V, is_reduction=True),
        AluOp("bitwise_xor", _B, _V, is_reduction=True),
        AluOp("invert", _B, _V, is_unary=True),
        AluOp("left_shift", _B, _V, is_commutative=False),
        AluOp("right_shift", _B, _V, is_commutative=False),
    )
}
"""Every operator that an `op` argument may name, by its `nki.language` name."""


@dataclass(frozen=True, slots=True)
class Activation:
    """One function of the Scalar Engine with the range of inputs for which its result is valid."""

    name: str
    low: float = float("-inf")
    high: float = float("inf")
    low_magnitude: float = 0.0


_PI = 3.141592653589793

ACTIVATIONS: dict[str, Activation] = {
    function.name: function
    for function in (
        Activation("copy"),
        Activation("prelu"),
        Activation("square"),
        Activation("sigmoid"),
        Activation("relu"),
        Activation("gelu"),
        Activation("gelu_dx"),
        Activation("gelu_apprx_tanh"),
        Activation("gelu_apprx_sigmoid"),
        Activation("gelu_apprx_sigmoid_dx"),
        Activation("silu"),
        Activation("silu_dx"),
        Activation("tanh"),
        Activation("softplus"),
        Activation("mish"),
        Activation("erf"),
        Activation("erf_dx"),
        Activation("exp"),
        Activation("sign"),
        Activation("abs"),
        Activation("log", low=2.0**-64, high=2.0**64),
        Activation("sin", low=-_PI, high=_PI),
        Activation("arctan", low=-_PI / 2, high=_PI / 2),
        Activation("sqrt", low=2.0**-116, high=2.0**118),
        Activation("rsqrt", low=2.0**-87, high=2.0**97),
        Activation("reciprocal", low=-(2.0**42), high=2.0**42, low_magnitude=2.0**-42),
    )
}
"""Every activation function by its `nki.language` name. sqrt takes 0 as well."""
