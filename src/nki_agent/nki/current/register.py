"""Registers while tracing: names without values.

Source: nki.isa.VirtualRegister and register_alloc (0.6.0). A loop's own register is read-only.
"""

from __future__ import annotations

from typing import NoReturn

from nki_agent.nki.current.recorder import STATE, fail


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
        fail(
            "NK110",
            f"{what} of a register: its value is not known while tracing",
            hint="use `nl.fori_loop` or `nl.while_loop`, and registers as `scalar_offset`",
        )

    def __bool__(self) -> bool:
        """Refused."""
        self._no_value("truth value")

    def __int__(self) -> int:
        """Refused."""
        self._no_value("int()")

    def __index__(self) -> int:
        """Refused."""
        self._no_value("use as an index")

    def __repr__(self) -> str:
        """Its name, and its value where it has one."""
        found = None if STATE.oracle is None else STATE.oracle(self)
        return f"register{self.number}" + ("" if found is None else f"={found.item()}")
