"""Values of tiles and registers while a kernel runs: `nki-agent run --eager`.

Law: the value of a tile is what the instructions recorded until now leave in it, executed from the
call's arguments by the simulator; asking for it records nothing and changes nothing. Each question
runs the kernel from its start, so a kernel that is asked often is slow.
There is no value inside of a run-time loop, whose body is recorded once, nor on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.nki.current.allocation import ISA, allocate, whole_view
from nki_agent.nki.current.recorder import STATE, Recorder
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.program.records import Tensor
from nki_agent.runtime.arrays import ArrayArgument
from nki_agent.runtime.settings import Settings
from nki_agent.sim.execute import compile_program

MARK = "value asked for by --eager"
"""Prefix of the print that is added to the recorded instructions."""


@contextmanager
def watching(
    arguments: Mapping[str, ArrayArgument], settings: Settings, *, is_on: bool
) -> Iterator[None]:
    """Let tiles of the trace inside the block have values, if `is_on`."""
    if not is_on:
        yield
        return
    values = {name: np.ascontiguousarray(a.values) for name, a in arguments.items()}
    STATE.oracle = _Oracle(values, settings).find
    try:
        yield
    finally:
        STATE.oracle = None


class _Oracle:
    def __init__(self, values: Mapping[str, np.ndarray], settings: Settings) -> None:
        self._values = values
        self._settings = settings

    def find(self, thing: object) -> np.ndarray | None:
        """The value of a tile or a register now; None where there is none."""
        recorder = STATE.recorder
        if recorder is None or recorder.path or recorder.launch.cores > 1:
            return None
        STATE.recorder = fork = recorder.fork()
        try:
            if isinstance(thing, VirtualRegister):
                tile = allocate((1, 1), DType.INT32)
                ISA["register_store"](dst=tile, src=thing)
                return self._run(fork, tile)
            assert isinstance(thing, NkiTensor)
            return self._find_tile(fork, thing)
        finally:
            STATE.recorder = recorder

    def _find_tile(self, fork: Recorder, tile: NkiTensor) -> np.ndarray | None:
        """The whole tensor is printed, since an instruction cannot read every view."""
        if tile.is_indirect():
            return self._run(fork, tile)
        tensor = fork.tensors[tile._tensor]
        shape, dtype = tensor.shape, tensor.dtype
        whole = whole_view(tile._tensor, tensor.name, tensor.memory, shape, dtype)
        if tensor.memory is Memory.PSUM:
            copy = allocate(shape, dtype)
            ISA["tensor_copy"](dst=copy, src=whole)
            whole = copy
        found = self._run(fork, whole)
        return None if found is None else _view_of(found, tile, tensor)

    def _run(self, fork: Recorder, tile: NkiTensor) -> np.ndarray | None:
        ISA["device_print"](MARK, tile)
        is_precise = self._settings.is_precise
        executable = compile_program(fork.so_far(), fork.chip, is_precise=is_precise)
        printed = executable.run(self._values, with_checks=False).printed
        # A kernel that has printed more than is kept leaves no room.
        return printed[-1][1] if printed and printed[-1][0] == MARK else None


def _view_of(whole: np.ndarray, tile: NkiTensor, tensor: Tensor) -> np.ndarray:
    """The part of a whole tensor that a view shows."""
    dtype, widening = tile.dtype.numpy_dtype, 1
    if whole.dtype.itemsize != tensor.dtype.itemsize:  # kept as float32
        widening = whole.dtype.itemsize // tensor.dtype.itemsize
        dtype = whole.dtype
    strides, offset = list(tile._strides), tile._offset
    if tensor.memory.is_on_chip:
        strides[0] *= tensor.partition_bytes
        offset += tile._start * tensor.partition_bytes
    strides = [stride * widening for stride in strides]
    flat = np.ascontiguousarray(whole)
    return np.ndarray(tile.shape, dtype, flat, offset * widening, strides).copy()
