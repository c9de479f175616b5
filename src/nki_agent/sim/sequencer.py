"""Registers of one core's sequencers, and what it exchanges with other cores and ranks.

Law: a register holds 32 bits, read as a signed number; reading one before it is written is an error
of the kernel (NK207).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.program.records import Register
from nki_agent.program.registers import wrap

Array = npt.NDArray[Any]


class Sequencer:
    """What a core's sequencers hold; registers go by their ids, tiles by their pipes."""

    def __init__(self, registers: Sequence[Register] = (), *, rank: int = 0) -> None:
        """No register is written yet."""
        self.rank = rank
        self._registers = registers
        self._values: dict[int, int] = {}
        self.sent: dict[int, Array] = {}
        self.received: dict[int, Array] = {}
        self.outbox: list[Array] = []
        """What goes into a collective, in order, and what comes out of it."""
        self.inbox: list[Array] = []

    def reset(self) -> None:
        """Start over."""
        self._values = {
            n: wrap(r.initial) for n, r in enumerate(self._registers) if r.initial is not None
        }
        self.sent.clear()
        self.received.clear()
        self.outbox.clear()
        self.inbox.clear()

    def get(self, number: int) -> int:
        """The value of a register; KernelError if nothing was written to it."""
        value = self._values.get(number)
        if value is None:
            raise KernelError(
                Diagnostic(
                    code="NK207",
                    what=f"a register (`{self._registers[number].name}`) is read before it is"
                    " written",
                    hint="give it a value: `nisa.register_alloc(0)`, `nisa.register_move` or"
                    " `nisa.register_load`",
                )
            )
        return value

    def set(self, number: int, value: int) -> None:
        """Write the low 32 bits of a number to a register."""
        self._values[number] = wrap(value)
