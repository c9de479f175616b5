"""Tensors that a kernel placed by hand at addresses which overlap: they share bytes.

Two such tensors get buffers of their own where that changes nothing: the earlier one is done before
the later one begins, and the later one begins by being written whole. All others of a connected
group are views of one buffer that holds their formats' own bytes, and that starts as poison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from nki_agent.isa.enums import Memory
from nki_agent.program.records import Program, Tensor
from nki_agent.sim.plan import refuse
from nki_agent.sim.storage import Layout, Place, Pool, make_buffer
from nki_agent.sim.usage import NEVER, Usage

BOXES_MAX = 4096
"""Different places by hand; each is compared with every other."""
PAIRS_MAX = 2**22
"""Pairs of a tensor and a place that overlaps its own."""


@dataclass(frozen=True, slots=True)
class _Box:
    """The partitions and bytes that a tensor takes, ends left out; each core has its own memory."""

    core: int
    memory: Memory
    partitions: tuple[int, int]
    span: tuple[int, int]

    @staticmethod
    def of(tensor: Tensor, *, core: int) -> _Box:
        assert tensor.address is not None
        partition, byte = tensor.address
        return _Box(
            core,
            tensor.memory,
            (partition, partition + tensor.partitions),
            (byte, byte + tensor.partition_bytes),
        )

    def overlaps(self, other: _Box) -> bool:
        return (
            self.core == other.core
            and self.memory is other.memory
            and self.partitions[0] < other.partitions[1]
            and other.partitions[0] < self.partitions[1]
            and self.span[0] < other.span[1]
            and other.span[0] < self.span[1]
        )


class _Groups:
    """Tensors joined into groups; each group knows when its last member is done."""

    def __init__(self, last: list[int]) -> None:
        self._parent: dict[int, int] = {}
        self._last = list(last)

    def find(self, member: int) -> int:
        root = member
        while (above := self._parent.get(root, root)) != root:
            root = above
        self._parent[member] = root
        return root

    def join(self, one: int, other: int) -> None:
        first, second = self.find(one), self.find(other)
        self._parent[second] = first
        self._last[first] = max(self._last[first], self._last[second])

    def last_use(self, member: int) -> int:
        return self._last[self.find(member)]


def share_addresses(
    program: Program,
    usage: Usage,
    pool: Pool,
    *,
    begins_whole: Callable[[int], bool],
    core_of: Callable[[int], int],
) -> dict[int, Place]:
    """Places of the tensors that share bytes with others; the others are not in the answer."""
    placed = [
        index
        for index, tensor in enumerate(program.tensors)
        if tensor.address is not None and usage.first[index] != NEVER
    ]
    placed.sort(key=lambda index: usage.first[index])
    boxes = {
        index: _Box.of(program.tensors[index], core=core_of(usage.first[index])) for index in placed
    }
    neighbours = _find_neighbours(boxes)
    groups = _Groups(usage.last)
    owners: dict[_Box, int] = {}
    for index, box in boxes.items():
        is_whole = begins_whole(index)
        for other in neighbours[box]:
            owner = owners.get(other)
            if owner is None:
                continue
            if not is_whole or groups.last_use(owner) >= usage.first[index]:
                groups.join(owner, index)
        owners[box] = index
    members: dict[int, list[int]] = {}
    for index in placed:
        members.setdefault(groups.find(index), []).append(index)
    places: dict[int, Place] = {}
    for group in members.values():
        if len(group) > 1:
            places.update(_share(program, group, pool))
    return places


def _find_neighbours(boxes: dict[int, _Box]) -> dict[_Box, list[_Box]]:
    """The places that overlap each place, itself among them; NK114 where they are too many."""
    uses = Counter(boxes.values())
    if len(uses) > BOXES_MAX:
        refuse(f"a kernel with `address` at more than {BOXES_MAX} different places")
    neighbours = {box: [other for other in uses if other.overlaps(box)] for box in uses}
    if sum(uses[box] * len(others) for box, others in neighbours.items()) > PAIRS_MAX:
        refuse("a kernel whose tensors with an `address` overlap this often")
    return neighbours


def _share(program: Program, group: list[int], pool: Pool) -> dict[int, Place]:
    boxes = {index: _Box.of(program.tensors[index], core=0) for index in group}
    top = min(box.partitions[0] for box in boxes.values())
    left = min(box.span[0] for box in boxes.values())
    row_bytes = max(box.span[1] for box in boxes.values()) - left
    partitions = max(box.partitions[1] for box in boxes.values()) - top
    # The layout is that of the whole group, so that rows have the group's distance.
    layout = Layout(None, partitions, row_bytes)
    buffer = make_buffer(layout.num_bytes)
    pool.num_bytes += layout.num_bytes
    return {
        index: pool.share(
            pool.number_of(layout),
            buffer,
            (box.partitions[0] - top) * row_bytes + box.span[0] - left,
        )
        for index, box in boxes.items()
    }
