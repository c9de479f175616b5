"""The states of bytes of tensors, small ones shared, so that what is done again is not done again.

Law: a shared array never changes; whoever writes gets a copy. Two tensors with one shared number
hold equal bytes. A step that only sees clean and shared states, at the same offsets, has the same
effect each time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nki_agent.program.records import Instruction

State = npt.NDArray[np.uint8]

SHARED_BYTES_MAX = 2**20
"""A larger tensor's state is its own: copies of it would cost more than they save."""
ALL_SHARED_BYTES_MAX = 2**28
STEPS_MAX = 100_000
"""Steps that are remembered."""
CLEAN = 0
"""The number of a state without poison."""

Key = tuple[object, ...]
Effect = tuple[tuple[int, int], ...]
"""Places of tensors, and the numbers of their states afterwards."""


class States:
    """The state of every tensor that is not clean."""

    def __init__(self) -> None:
        """All tensors are clean."""
        self._arrays: dict[int, State] = {}
        self._numbers: dict[int, int] = {}
        self._shared: list[State] = [np.zeros((0, 0), np.uint8)]
        self._filled: dict[tuple[int, int, int], int] = {}
        self._bytes_left = ALL_SHARED_BYTES_MAX
        self._effects: dict[Key, Effect] = {}

    def get(self, tensor: int) -> State | None:
        """The state to look at; None if the tensor is clean."""
        return self._arrays.get(tensor)

    def writable(self, tensor: int) -> State | None:
        """The state to change; None if the tensor is clean."""
        if self._numbers.pop(tensor, CLEAN) != CLEAN:
            self._arrays[tensor] = self._arrays[tensor].copy()
        return self._arrays.get(tensor)

    def fill(self, tensor: int, shape: tuple[int, int], value: int) -> State:
        """Let all bytes of a tensor have one state."""
        number = self._filled.get((*shape, value))
        if number is None:
            array = np.full(shape, value, np.uint8)
            number = self._share(array)
            if number is None:
                self._arrays[tensor] = array
                return array
            self._filled[*shape, value] = number
        self._numbers[tensor] = number
        self._arrays[tensor] = self._shared[number]
        return self._shared[number]

    def drop(self, tensor: int) -> None:
        """Forget a tensor; it counts as clean."""
        self._arrays.pop(tensor, None)
        self._numbers.pop(tensor, None)

    def key(self, instruction: Instruction) -> Key | None:
        """What decides the effect of a step; None where a state is not shared."""
        parts: list[object] = [instruction.signature]
        for tensor, offset in zip(instruction.tensors, instruction.offsets, strict=True):
            number = self._numbers.get(tensor, CLEAN)
            if number != CLEAN:
                parts.append((number, offset))
            elif tensor in self._arrays:
                return None
            else:
                parts.append(CLEAN)
        tensors = instruction.tensors
        if len(set(tensors)) < len(tensors):
            parts.append(tuple(tensors.index(t) for t in tensors))
        return tuple(parts)

    def repeat(self, key: Key, instruction: Instruction) -> bool:
        """Have the effect that a step with this key had before, if there was one."""
        effect = self._effects.get(key)
        if effect is None:
            return False
        for place, number in effect:
            tensor = instruction.tensors[place]
            if number == CLEAN:
                self.drop(tensor)
            else:
                self._numbers[tensor] = number
                self._arrays[tensor] = self._shared[number]
        return True

    def remember(self, key: Key, instruction: Instruction, written: tuple[int, ...]) -> None:
        """Keep what a step did to the tensors at these places, if that can be repeated.

        Poison in a tensor that was clean cannot: its offset is not in the key.
        """
        if len(self._effects) >= STEPS_MAX:
            return
        effect = []
        for place in written:
            tensor = instruction.tensors[place]
            was_clean = key[1 + place] == CLEAN
            number = self._number(tensor)
            if number is None or (was_clean and number != CLEAN):
                return
            if not was_clean:
                effect.append((place, number))
        self._effects[key] = tuple(effect)

    def _number(self, tensor: int) -> int | None:
        """The number of a tensor's state, shared from now on if it can be."""
        array = self._arrays.get(tensor)
        if array is None:
            return CLEAN
        known = self._numbers.get(tensor)
        if known is not None:
            return known
        if not array.any():
            self.drop(tensor)
            return CLEAN
        number = self._share(array)
        if number is not None:
            self._numbers[tensor] = number
        return number

    def _share(self, array: State) -> int | None:
        if array.nbytes > min(SHARED_BYTES_MAX, self._bytes_left):
            return None
        self._bytes_left -= array.nbytes
        self._shared.append(array)
        return len(self._shared) - 1
