"""NkiTensor: a view of a tensor with no values.

Law: anything that needs a value (`float(t)`, `if t:`, iteration, NumPy conversion, Python
operators) raises and says what to use.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from nki_agent.nki.current.layout import Layout
from nki_agent.nki.current.recorder import STATE, fail

NUMBERS = (int, float, np.generic, np.ndarray)


class NkiTensor(Layout):
    """A view of a tensor in HBM, SBUF or PSUM."""

    __slots__ = ()

    def _no_value(self, what: str) -> NoReturn:
        fail(
            "NK110",
            f"{what} of tensor `{self.name}`: it has no value while tracing",
            hint="compute with `nisa` instructions; branch on shapes and static arguments only",
        )

    def __bool__(self) -> bool:
        """Refused."""
        self._no_value("truth value")

    def __float__(self) -> float:
        """Refused."""
        self._no_value("float()")

    def __int__(self) -> int:
        """Refused."""
        self._no_value("int()")

    def __index__(self) -> int:
        """Refused."""
        self._no_value("use as an index")

    def __len__(self) -> int:
        """Refused: `shape[0]` says it."""
        fail("NK110", f"len() of tensor `{self.name}`", hint="use `tensor.shape[0]`")

    def __iter__(self) -> NoReturn:
        """Refused."""
        self._no_value("iteration")

    def __contains__(self, item: object) -> bool:
        """Refused."""
        self._no_value("`in`")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Refused, unless tiles have values (`nki-agent run --eager`)."""
        found = None if STATE.oracle is None else STATE.oracle(self)
        if found is None:
            self._no_value("NumPy conversion")
        return found if dtype is None else found.astype(dtype)

    def __array_ufunc__(self, *args: object, **kwargs: object) -> NoReturn:
        """Refused."""
        self._no_value("NumPy function")

    def __eq__(self, other: object) -> bool:
        """Whether both are the same view; its values compare with nothing while tracing."""
        if isinstance(other, NUMBERS):
            _operator("==", "nl.equal(x, y)")(self, other)
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Name, shape, dtype and memory, and the value where there is one."""
        found = None if STATE.oracle is None else STATE.oracle(self)
        value = "" if found is None else f"\n{found}"
        what = f"{self.name}, shape={self.shape}, dtype={self.dtype}, buffer={self.buffer}"
        return f"NkiTensor({what}){value}"


def _operator(symbol: str, function: str):  # type: ignore[no-untyped-def]
    def refuse(self: NkiTensor, *args: object) -> NoReturn:
        other = type(args[0]).__name__ if args else ""
        fail(
            "NK115",
            f"unsupported operand type(s) for {symbol}: 'NkiTensor' and '{other}'",
            hint=f"use `{function}` or the matching `nisa` instruction",
        )

    return refuse


for _names, _symbol, _function in (
    ("add radd iadd", "+", "nl.add(x, y)"),
    ("sub rsub isub", "-", "nl.subtract(x, y)"),
    ("mul rmul imul", "*", "nl.multiply(x, y)"),
    ("truediv rtruediv itruediv", "/", "nl.multiply(x, nl.reciprocal(y))"),
    ("floordiv mod pow rpow neg pos abs", "arithmetic", "nl.*"),
    ("matmul rmatmul", "@", "nisa.nc_matmul(dst, stationary, moving)"),
    ("lt le gt ge", "comparison", "nl.less(x, y)"),
    ("and or xor rand ror rxor invert lshift rshift", "bitwise", "nl.bitwise_and(x, y)"),
):
    for _name in _names.split():
        setattr(NkiTensor, f"__{_name}__", _operator(_symbol, _function))
