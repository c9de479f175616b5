"""The one table of instructions, in a fixed order that gives each declaration its index."""

from __future__ import annotations

from dataclasses import replace

from nki_agent.isa.chance import CHANCE
from nki_agent.isa.collective import COLLECTIVE
from nki_agent.isa.control import CONTROL
from nki_agent.isa.declaration import Declaration
from nki_agent.isa.gather import GATHER
from nki_agent.isa.gpsimd import GPSIMD
from nki_agent.isa.microscaling import MICROSCALING
from nki_agent.isa.movement import MOVEMENT
from nki_agent.isa.scalar import SCALAR
from nki_agent.isa.tensor import TENSOR
from nki_agent.isa.vector import VECTOR

_ALL = (
    *MOVEMENT,
    *TENSOR,
    *VECTOR,
    *SCALAR,
    *GPSIMD,
    *GATHER,
    *CHANCE,
    *MICROSCALING,
    *CONTROL,
    *COLLECTIVE,
)
TABLE: dict[str, Declaration] = {
    declaration.name: replace(declaration, index=index) for index, declaration in enumerate(_ALL)
}
"""Every declared instruction by name."""
