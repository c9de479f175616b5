"""Time of one verdict for row softmax of [1024, 1024] float32, beside plain NumPy on its tiles.

Prints each step in ms: check, trace in the warm sandbox, validate and place, then for one seed the
inputs, the simulation, the reference and the comparison, then the cost model; last the whole
verdict with its five seeds. Limit: 150 ms in all, on one core.
Run: python benchmarks/verdict.py
"""

from __future__ import annotations

import os
import time
from pathlib import Path

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402 - the affinity comes first

from nki_agent.chip.spec import Target, load_chip  # noqa: E402
from nki_agent.sim.execute import compile_program  # noqa: E402
from nki_agent.task.loader import load_task  # noqa: E402
from nki_agent.task.trial import compare_outputs, expected, make_trials  # noqa: E402
from nki_agent.verify.judge import Judge  # noqa: E402
from nki_agent.verify.kernel import Kernel  # noqa: E402
from nki_agent.verify.speed import estimate_speed  # noqa: E402

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
REPEATS = 9


def numpy_tiles(x: np.ndarray) -> np.ndarray:
    """What the kernel does, on the same tiles."""
    out = np.empty_like(x)
    for start in range(0, len(x), 128):
        tile = x[start : start + 128].copy()
        tile -= tile.max(axis=1, keepdims=True)
        np.exp(tile, out=tile)
        tile *= 1.0 / tile.sum(axis=1, keepdims=True)
        out[start : start + 128] = tile
    return out


def median_ms(times: list[float]) -> float:
    return 1e3 * sorted(times)[len(times) // 2]


def main() -> None:
    task = load_task(EXAMPLES / "softmax_numpy.py")
    kernel = Kernel.from_path(EXAMPLES / "kernels" / "softmax.py")
    target = Target.TRN2
    with Judge(target=target) as judge:
        whole, compiling, steps = [], [], dict[str, list[float]]()
        for number in range(REPEATS):
            start = time.perf_counter()
            verdict = judge.judge(kernel, task, root_seed=number)
            whole.append(time.perf_counter() - start)
            assert verdict.right, [str(d) for d in verdict.diagnostics]
        for number in range(REPEATS):
            start = time.perf_counter()
            compiled = judge.compile(kernel, task.dev)
            compiling.append(time.perf_counter() - start)
            assert compiled.program is not None
            assert compiled.placement is not None
            clock = [time.perf_counter()]
            executable = compile_program(compiled.program, load_chip(target))
            trial = make_trials(task, number)[0]
            clock.append(time.perf_counter())
            inputs = trial.inputs(task)
            clock.append(time.perf_counter())
            run = executable.run(inputs)
            clock.append(time.perf_counter())
            wanted = expected(task, inputs)
            clock.append(time.perf_counter())
            compare_outputs(task, trial, wanted, {task.outputs[0].name: run.outputs[0]})
            clock.append(time.perf_counter())
            estimate_speed(compiled.program, compiled.placement, task.dev, target)
            clock.append(time.perf_counter())
            numpy_tiles(inputs[task.tensors[0].name])
            clock.append(time.perf_counter())
            names = (
                "compile for the simulator",
                "inputs of a seed",
                "simulate a seed",
                "reference of a seed",
                "compare a seed",
                "cost model",
                "plain NumPy tiles",
            )
            for name, begin, end in zip(names, clock, clock[1:], strict=False):
                steps.setdefault(name, []).append(end - begin)
    print(f"{'check, trace, validate, place':<30} {median_ms(compiling):7.1f} ms")
    for name, times in steps.items():
        print(f"{name:<30} {median_ms(times):7.1f} ms")
    ratio = median_ms(steps["simulate a seed"]) / median_ms(steps["plain NumPy tiles"])
    print(f"simulation to plain NumPy      {ratio:7.2f}")
    print(f"one verdict                    {median_ms(whole):7.1f} ms (limit 150)")


if __name__ == "__main__":
    main()
