"""When a resource that one user holds at a time is taken: a DMA engine, a memory port.

Law: no two users hold a lane at once, and a lane never idles while a user that `fill` placed waits.
Users are placed in program order, so one that is ready early takes what earlier ones left free.
"""

from __future__ import annotations

from bisect import bisect_right

ROUNDING_NS = 1e-6
"""Work that counts as fitting: sums of equal durations differ in their last bits."""


class Lane:
    """Disjoint busy intervals in order of time, in ns."""

    __slots__ = ("_ends", "_starts", "busy_ns")

    def __init__(self) -> None:
        """Nothing is taken."""
        self._starts: list[float] = []
        self._ends: list[float] = []
        self.busy_ns = 0.0
        """Time taken in all."""

    def fill(self, ready_ns: float, work_ns: float) -> tuple[float, float]:
        """Take `work_ns` of free time from `ready_ns` on, in pieces: begin and end of them all."""
        starts, ends = self._starts, self._ends
        self.busy_ns += work_ns
        if not ends or ready_ns > ends[-1]:
            starts.append(ready_ns)
            ends.append(ready_ns + work_ns)
            return ready_ns, ends[-1]
        if ready_ns >= starts[-1]:
            begin = ends[-1]
            ends[-1] = begin + work_ns
            return begin, ends[-1]
        return self._fill_gaps(ready_ns, work_ns)

    def _fill_gaps(self, ready_ns: float, work_ns: float) -> tuple[float, float]:
        starts, ends = self._starts, self._ends
        first = last = bisect_right(ends, ready_ns - ROUNDING_NS)
        merged = min(ready_ns, starts[first])
        begin = ready_ns if ready_ns < starts[first] else max(ready_ns, ends[first])
        time, left = ready_ns, work_ns
        while last < len(starts):
            free = starts[last] - time
            if free >= left - ROUNDING_NS:
                break
            left -= max(0.0, free)
            time = max(time, ends[last])
            last += 1
        end = time + left
        until = end
        if last < len(starts) and starts[last] - end < ROUNDING_NS:
            end = min(end, starts[last])
            until = ends[last]
            last += 1
        starts[first:last] = [merged]
        ends[first:last] = [until]
        return begin, end

    def find_gap(self, ready_ns: float, length_ns: float) -> float:
        """The earliest time from `ready_ns` on at which the lane is free for `length_ns`."""
        starts, ends = self._starts, self._ends
        if not ends or ready_ns >= ends[-1]:
            return ready_ns
        index = bisect_right(ends, ready_ns)
        time = ready_ns
        while index < len(starts) and starts[index] - time < length_ns - ROUNDING_NS:
            time = max(time, ends[index])
            index += 1
        return time
