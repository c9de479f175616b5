"""Registers while tracing: names without values.

Source: nki.isa.VirtualRegister and register_alloc (0.6.0). A loop's own register is read-only.
"""

from __future__ import annotations

from typing import NoReturn

from nki_agent.nki.current.recorder import STATE, fail

HINT = (
    "use `nl.fori_loop` or `nl.while_loop`, and a register as the `scalar_offset` of `x.ap(...)`;"
    " compute in an int32 tile and load it with `nisa.register_load`"
)


class VirtualRegister:
    """A register of the engines' sequencers; its value exists only at run time."""

    __slots__ = ("is_frozen", "number")

    def __init__(self, number: int, *, is_frozen: bool = False) -> None:
        """`number` is its id in the Program."""
        self.number = number
        self.is_frozen = is_frozen

    def require_writable(self) -> int:
        """Its id, for an instruction that writes it."""
        if self.is_frozen:
            fail(
                "NK308",
                "destination register",
                got="a loop's own register",
                limit="a register of `nisa.register_alloc`",
                hint="the loop alone counts; keep other state in a register of your own",
            )
        return self.number

    def _no_value(self, what: str) -> NoReturn:
        fail("NK110", f"{what} of a register: its value is not known while tracing", hint=HINT)

    def __bool__(self) -> bool:
        """Refused."""
        self._no_value("truth value")

    def __int__(self) -> int:
        """Refused."""
        self._no_value("int()")

    def __index__(self) -> int:
        """Refused."""
        self._no_value("use as an index")

    def __eq__(self, other: object) -> bool:
        """False for None, else refused."""
        if other is None:
            return False
        self._no_value("comparison")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Its name, and its value where it has one."""
        found = None if STATE.oracle is None else STATE.oracle(self)
        return f"register{self.number}" + ("" if found is None else f"={found.item()}")


def _operator(what: str):  # type: ignore[no-untyped-def]
    def refuse(self: VirtualRegister, *args: object) -> NoReturn:
        self._no_value(what)

    return refuse


for _names, _what in (
    ("lt le gt ge", "comparison"),
    ("add radd sub rsub mul rmul floordiv rfloordiv mod rmod truediv rtruediv neg", "arithmetic"),
    ("and or xor rand ror rxor invert lshift rshift", "arithmetic"),
):
    for _name in _names.split():
        setattr(VirtualRegister, f"__{_name}__", _operator(_what))
