"""What the sandbox costs: a warm run of nothing, a trace inside and outside, one call of a task.

Prints medians and the fastest of many in ms (on a machine with other work, the fastest is the
sandbox's own part), and memory in MB; limit: 8 ms over a trace in this process. `--soak N` runs N
kernels in a row, some of which loop, allocate, exit or fork, and prints what has grown meanwhile:
memory and descriptors of both processes, and processes; nothing may.
Run: python benchmarks/sandbox.py [--soak 10000]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nki_agent.chip.spec import Target
from nki_agent.nki.current.tracing import encode_request, trace_bytes
from nki_agent.sandbox.outcome import Limits, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.family import STANDARD_SCALE
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import PRELOAD, TRACER
from nki_agent.verify.kernel import MAIN_NAME, Kernel
from nki_agent.verify.requests import make_request

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ECHO = "nki_agent.sandbox.child:echo"
REPEATS = 101
LIMIT_MS = 8.0
REPORTS = 10
IMPATIENT = Limits(seconds=0.3, cpu_seconds=1, memory_bytes=256 << 20, result_bytes=1 << 20)
HOSTILE = {
    "raises": "raise ValueError('no')",
    "exits": "import os; os._exit(0)",
    "forks": "import os; os.fork()",
    "allocates": "x = bytearray(1 << 40)",
    "says too much": "import os\nwhile True: os.write(63, bytes(1 << 16))",
    "crashes": "import ctypes; ctypes.string_at(0)",
}
LOOP_EVERY = 500
"""One kernel in so many loops until its time is over."""


@dataclass(frozen=True, slots=True)
class Times:
    """Of many calls of one step."""

    median_ms: float
    fastest_ms: float

    def __str__(self) -> str:
        return f"{self.median_ms:8.2f} ms, at best {self.fastest_ms:.2f}"

    def over(self, other: Times) -> Times:
        return Times(self.median_ms - other.median_ms, self.fastest_ms - other.fastest_ms)


def time_calls(step: Callable[[], object], *, repeats: int = REPEATS) -> Times:
    """Of so many calls, after one that does not count."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return Times(1e3 * sorted(times)[repeats // 2], 1e3 * min(times))


def measure() -> None:
    """Print one line a figure."""
    task = load_task(EXAMPLES / "softmax_numpy.py")
    kernel = Kernel.from_path(EXAMPLES / "kernels" / "softmax.py")
    request = encode_request(make_request(kernel, task.dev, Target.TRN2))
    begin = time.perf_counter()
    with (
        Sandbox(TRACER, preload=PRELOAD) as tracer,
        Sandbox(ECHO, preload=PRELOAD) as echo,
    ):
        start_ms = 1e3 * (time.perf_counter() - begin) / 2
        assert tracer.run(request).kind is OutcomeKind.RESULT
        nothing = time_calls(lambda: echo.run(b"x"))
        inside = time_calls(lambda: tracer.run(request))
        rss = rss_mb(tracer.pid)
    outside = time_calls(lambda: trace_bytes(request))
    print(f"{'start of a warmed process':<34} {start_ms:8.1f} ms")
    print(f"{'its memory':<34} {rss:8.1f} MB")
    print(f"{'a run that does nothing':<34} {nothing}")
    print(f"{'trace of softmax here':<34} {outside}")
    print(f"{'trace of softmax in the sandbox':<34} {inside}")
    print(f"{'overhead of the sandbox':<34} {inside.over(outside)} (limit {LIMIT_MS:g})")


def measure_tasks() -> None:
    """The same for a task file."""
    path = EXAMPLES / "softmax_numpy.py"
    begin = time.perf_counter()
    with TaskHost() as host:
        start_ms = 1e3 * (time.perf_counter() - begin)
        begin = time.perf_counter()
        task, local = load_untrusted_task(path, host=host), load_task(path)
        load_ms = 1e3 * (time.perf_counter() - begin)
        there = time_calls(partial(task.dev.sampler.draw, 1, STANDARD_SCALE), repeats=9)
        here = time_calls(partial(local.dev.sampler.draw, 1, STANDARD_SCALE), repeats=9)
        rss = rss_mb(host.pid)
    num_mb = sum(t.num_bytes for t in local.dev.tensors) / 1e6
    print(f"{'start of the process of tasks':<34} {start_ms:8.1f} ms, {rss:.0f} MB")
    print(f"{'load of a task, there and here':<34} {load_ms:8.1f} ms")
    print(f"{f'draw of {num_mb:.1f} MB there':<34} {there}")
    print(f"{f'draw of {num_mb:.1f} MB here':<34} {here}")


def soak(num_kernels: int) -> None:
    """Run so many kernels, and fail where anything grows."""
    task = load_task(EXAMPLES / "softmax_numpy.py")
    honest = Kernel.from_path(EXAMPLES / "kernels" / "softmax.py")
    bodies = [*HOSTILE.values(), "while True: pass"]
    kernels = [honest, *(Kernel({MAIN_NAME: body}, MAIN_NAME) for body in bodies)]
    requests = [encode_request(make_request(k, task.dev, Target.TRN2)) for k in kernels]
    *others, loop = requests
    with Sandbox(TRACER, preload=PRELOAD, limits=IMPATIENT) as sandbox:
        for request in requests:
            sandbox.run(request)
        before = count(sandbox.pid)
        print("memory MB and descriptors, here and of the warmed process; its children")
        begin = time.perf_counter()
        for number in range(1, num_kernels + 1):
            is_loop = number % LOOP_EVERY == 0
            sandbox.run(loop if is_loop else others[number % len(others)])
            if number % max(1, num_kernels // REPORTS) == 0:
                print(f"{number:>7} {count(sandbox.pid)}")
        after = count(sandbox.pid)
        seconds = time.perf_counter() - begin
    print(f"{num_kernels} kernels in {seconds:.0f} s; before {before}, after {after}")
    grown = [now - then for now, then in zip(after, before, strict=True)]
    assert max(grown[0], grown[2]) < 2.0, "memory has grown"
    assert grown[1] == grown[3] == grown[4] == 0, "descriptors or processes have grown"


def count(pid: int | None) -> tuple[float, int, float, int, int]:
    """Memory in MB and descriptors here and there, and the children there."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own, there = (len(os.listdir(f"/proc/{one}/fd")) for one in ("self", pid))  # noqa: PTH208
    return round(rss_mb(os.getpid()), 1), own, round(rss_mb(pid), 1), there, len(children)


def rss_mb(pid: int | None) -> float:
    """Memory that a process has in use."""
    num_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return num_pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", type=int, default=0, metavar="N", help="run N kernels in a row")
    options = parser.parse_args()
    if options.soak:
        soak(options.soak)
    else:
        measure()
        measure_tasks()


if __name__ == "__main__":
    main()
