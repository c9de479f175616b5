"""Which buffer each tensor has, and from when to when.

Arguments, results, constants, tensors with shared addresses and those that both cores see keep
their buffers throughout. All others get one at their first instruction, which is filled with poison
unless that instruction writes all of it, and hand it on after their last; where that lies in a loop
around which the tensor lives on, in front of the loop and behind it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.program.records import Init, Instruction, Program, Tensor
from nki_agent.program.validate import written_arguments
from nki_agent.sim.addresses import share_addresses
from nki_agent.sim.border import Port, load_port
from nki_agent.sim.calls import run_all
from nki_agent.sim.forms import Form
from nki_agent.sim.order import Order, Spans
from nki_agent.sim.storage import Fill, Layout, Place, Pool
from nki_agent.sim.usage import NEVER


class Tenancy:
    """Places of tensors while a Program is compiled, and the calls that fill them."""

    def __init__(
        self, program: Program, order: Order, spans: Spans, *, memory_bytes_max: int
    ) -> None:
        """No tensor has a place yet."""
        self._program = program
        self._order = order
        self._body = order.instructions
        self._spans = spans
        self._usage = spans.usage
        self._memory_bytes_max = memory_bytes_max
        self._pool = Pool()
        self._rooms: dict[tuple[int, int], Place] = {}
        self._layout_numbers: dict[object, int] = {}
        self._can_write_whole: dict[tuple[int, int, int], bool] = {}
        self.places: list[Place | None] = [None] * len(program.tensors)
        self.numbers = [0] * len(program.tensors)
        """Number of each tensor's place; 0 while it has none."""
        self.last = spans.last
        """The instruction after which each tensor's buffer is handed on."""
        self.prologue: list[Fill] = []
        """What fills buffers at the start of a run."""
        self.is_precise = True
        """Whether low-precision floats are rounded; set before anything is placed."""
        self.inputs: list[Port] = []
        self.results: list[Port] = []
        self.updated: list[Port] = []

    def settle(self, forms: list[Form]) -> None:
        """Give places to what keeps them throughout."""
        results = [result.tensor for result in self._program.results]
        self._settle_arguments(set(results))
        for index in results:
            self._settle_result(index)
        self._settle_constants(set(results))
        for index in sorted(self._spans.shared):
            if self.places[index] is None:
                self._keep(index)
                self.prologue.append(self._begin(index))
        self.results = [Port("", self._program.tensors[i], self._get(i)) for i in results]
        if any(tensor.address is not None for tensor in self._program.tensors):
            self._settle_addresses(forms)

    def _get(self, index: int) -> Place:
        place = self.places[index]
        assert place is not None
        return place

    def _settle_arguments(self, results: set[int]) -> None:
        written = written_arguments(self._program)
        for argument in self._program.arguments:
            index = argument.tensor
            if index is None or (self._usage.first[index] == NEVER and index not in results):
                continue
            if self.places[index] is None:
                self._keep(index)
            port = Port(argument.name, self._program.tensors[index], self._get(index))
            self.inputs.append(port)
            if index in written:
                self.updated.append(port)

    def _settle_result(self, index: int) -> None:
        init = self._program.tensors[index].init
        if self.places[index] is not None or init is Init.CONSTANT:
            return
        self._keep(index)
        begin = self._begin(index)
        if self._usage.is_read[index] or self._order.is_run_dependent:
            self.prologue.append(begin)
        else:
            # What no instruction reads keeps its poison wherever nothing writes, run after run.
            run_all([begin])

    def _begin(self, index: int) -> Fill:
        place = self._get(index)
        is_zero = self._program.tensors[index].init is Init.LAZY_ZERO
        return place.zero if is_zero else place.poison

    def _settle_constants(self, results: set[int]) -> None:
        for index, tensor in enumerate(self._program.tensors):
            is_used = self._usage.first[index] != NEVER or index in results
            if tensor.constant is None or not is_used:
                continue
            self._keep(index)
            constant = self._program.constants[tensor.constant]
            stored = np.frombuffer(constant.data, tensor.dtype.numpy_dtype).reshape(tensor.shape)
            # Loaded at each run: an instruction may write it.
            port = Port(constant.sha256, tensor, self._get(index))
            self.prologue.append((load_port, (port, {constant.sha256: stored})))

    def _settle_addresses(self, forms: list[Form]) -> None:
        def begins_whole(index: int) -> bool:
            node = self._body[self._usage.first[index]]
            return self._writes_whole(node, forms[node.signature], index)

        shared = share_addresses(
            self._program,
            self._spans.widened or self._usage,
            self._pool,
            begins_whole=begins_whole,
            core_of=self._order.core_of,
        )
        buffers: dict[int, Place] = {}
        for index, place in shared.items():
            self._keep(index, place)
            buffers.setdefault(id(place.buffer), place)
        self.prologue.extend(place.poison for place in buffers.values())

    def start_core(self) -> None:
        """Let no tensor of the next core have a buffer of this one: they run side by side."""
        self._pool.forget_free()

    def open_new(self, node: Instruction, form: Form) -> list[Fill]:
        """Give places to those of the instruction's tensors that have none; what fills them."""
        fills = []
        for index in node.tensors:
            if self.numbers[index]:
                continue
            fill = self._open(index)
            is_zero = self._program.tensors[index].init is Init.LAZY_ZERO
            if is_zero or not self._writes_whole(node, form, index):
                fills.append(fill)
        return fills

    def open_before(self, loop: int) -> list[Fill]:
        """Give places to the tensors that begin in front of a loop; what fills them."""
        opened = self._spans.opens.get(loop, ())
        return [self._open(index) for index in opened if not self.numbers[index]]

    def close_behind(self, loop: int) -> list[int]:
        """Hand on the buffers of the tensors that end with a loop, and say which they are."""
        kept = len(self._body)
        ended = [i for i in self._spans.closes.get(loop, ()) if self.last[i] != kept]
        return [index for index in ended if self.close(index)]

    def make_room(self, index: int, part: Tensor, ordinal: int) -> Place:
        """A place for what stands in for a part of a tensor while one instruction runs.

        Instructions share such places; one that needs several numbers them.
        """
        layout = replace(
            self._get(index).layout,
            partitions=part.partitions,
            partition_bytes=part.partition_bytes,
        )
        number = self._pool.number_of(layout)
        place = self._rooms.get((number, ordinal))
        if place is None:
            self._require_memory(index, self._pool.bytes_of(number))
            place = self._rooms[number, ordinal] = self._pool.make(number)
        return place

    def _open(self, index: int) -> Fill:
        layout_number = self._layout_number(index)
        self._require_memory(index, self._pool.needs(layout_number))
        place = self._pool.take(layout_number)
        self.places[index], self.numbers[index] = place, place.number
        return self._begin(index)

    def close(self, index: int) -> bool:
        """Hand the tensor's buffer on; False if that was done before."""
        place = self.places[index]
        if place is None:
            return False
        self._pool.give(place)
        self.places[index], self.numbers[index] = None, 0
        return True

    def _keep(self, index: int, place: Place | None = None) -> None:
        """Give a tensor a place that no other takes over."""
        if place is None:
            layout_number = self._layout_number(index)
            self._require_memory(index, self._pool.bytes_of(layout_number))
            place = self._pool.make(layout_number)
        self._require_memory(index)
        self.places[index], self.numbers[index] = place, place.number
        self.last[index] = len(self._body)

    def _layout_number(self, index: int) -> int:
        tensor, dtype = self._program.tensors[index], self._usage.dtype[index]
        key = (dtype, tensor.memory, tensor.shape, tensor.dtype)
        number = self._layout_numbers.get(key)
        if number is None:
            sizes = (tensor.partitions, tensor.partition_bytes)
            layout = Layout(dtype, *sizes, self.is_precise)
            number = self._layout_numbers[key] = self._pool.number_of(layout)
        return number

    def _require_memory(self, index: int, more_bytes: int = 0) -> None:
        """Refuse more than there may be, before it is allocated."""
        num_bytes = self._pool.num_bytes + more_bytes
        if num_bytes <= self._memory_bytes_max:
            return
        raise KernelError(
            Diagnostic(
                code="NK114",
                what="memory for the kernel's tensors in the simulator, in bytes,",
                got=str(num_bytes),
                limit=str(self._memory_bytes_max),
                where=self._program.stack(self._program.tensors[index].stack),
                hint="use smaller shapes",
            )
        )

    def _writes_whole(self, node: Instruction, form: Form, index: int) -> bool:
        """Whether the instruction writes all of the tensor and reads none of it."""
        position = node.tensors.index(index)
        key = (node.signature, position, self._layout_number(index))
        can = self._can_write_whole.get(key)
        if can is None:
            can = form.can_write_whole(position, self._program.tensors[index])
            self._can_write_whole[key] = can
        if not can or (node.detail is not None and node.detail.dynamic):
            return False
        return node.offsets[position] == 0 and node.tensors.count(index) == 1
