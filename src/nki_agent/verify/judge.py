"""The judge: runs a compiled kernel on secret inputs and compares it with the reference.

Law: the same kernel, task, target and root seed give the same verdict but for its wall time. The
reference runs after the kernel, or ran for an earlier one on the same inputs; outputs start as NaN;
nothing a kernel says about itself is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

import nki_agent
from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.diagnostic import Diagnostic, Severity, bounded, clean
from nki_agent.base.errors import KernelError, MachineError
from nki_agent.base.hashes import hash_bytes
from nki_agent.base.seeds import require_seed
from nki_agent.check.source import check_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target, load_chip
from nki_agent.program.records import NO_TRIPS, Program, Trips
from nki_agent.program.stored import encode_program
from nki_agent.sandbox.pool import Limits, Sandbox
from nki_agent.sandbox.session import Session
from nki_agent.sim.execute import Executable, compile_program
from nki_agent.sim.threads import use_one_thread
from nki_agent.task.comparison import Comparison
from nki_agent.task.conditioning import compare_fairly
from nki_agent.task.family import Family
from nki_agent.task.task import Scope, ShapeSet, Task
from nki_agent.task.trial import Trial as TaskTrial
from nki_agent.task.trial import make_trials
from nki_agent.task.undecided import accept_ties
from nki_agent.verify.budget import memory_bytes_max, steps_max
from nki_agent.verify.compiling import CompileResult, compile_kernel
from nki_agent.verify.drawn import Drawn
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look, look_at
from nki_agent.verify.speed import Speed, estimate_speed
from nki_agent.verify.verdict import Hashes, OutputError, Stage, Trial, Verdict

Array = NDArray[Any]
TRACER = "nki_agent.nki.current.tracing:trace_bytes"
REHEARSAL = "nki_agent.nki.current.rehearsal:rehearse"
PRELOAD = (
    *("numpy", "numpy.random", "numpy.linalg", "ml_dtypes", "msgspec"),
    *("math", "typing", "enum", "dataclasses", "functools", "itertools", "collections"),
)
NS_PER_MS = 1e6
SIZES_SHOWN_MAX = 6
"""Tensors whose shapes say at which sizes a kernel fails."""
NAME_CHARACTERS = 40
"""Kept of an output's name, so that the places of the errors stay in the message."""
_FIRST_LOOK = "compare with the reference at the first wrong element"
TRACE_LIMITS = Limits(result_bytes=160 * 2**20)
"""Four million instructions and all the constants that a Program may hold; records in memory take
up to some twenty times their stored bytes, so a larger answer is not even read.
"""


@dataclass(frozen=True, slots=True)
class _Run:
    """What running the trials of one shape set gave."""

    trials: tuple[Trial, ...]
    findings: tuple[Diagnostic, ...]
    runs: bool = True
    """False where the simulator cannot run the Program: it is too large, or not modelled."""
    trips: Trips = NO_TRIPS
    """How often run-time loops went round in the last trial."""

    @property
    def right(self) -> bool:
        """An error of a run counts even where its values are right: cores without a barrier."""
        is_clean = all(f.severity is not Severity.ERROR for f in self.findings)
        return self.runs and is_clean and all(t.right for t in self.trials)


class Judge:
    """Judges kernels for one target; owns a warm tracing process, so close it or use `with`."""

    def __init__(
        self,
        *,
        target: Target,
        allow_unsandboxed: bool = False,
        limits: Limits | None = None,
        clock: Clock | None = None,
        surface: Surface = Surface.NKI,
    ) -> None:
        """Start the tracing process; MachineError where untrusted source cannot be run safely."""
        self.target = target
        self.surface = surface
        self._clock = SystemClock() if clock is None else clock
        self._sandbox = Sandbox(
            TRACER,
            preload=PRELOAD,
            limits=TRACE_LIMITS if limits is None else limits,
            warm_up=REHEARSAL,
            allow_unsandboxed=allow_unsandboxed,
        )
        self._drawn = Drawn()
        use_one_thread()

    def __enter__(self) -> Self:
        """Itself, ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the tracing process."""
        self.close()

    def close(self) -> None:
        """End the tracing process."""
        self._sandbox.close()

    def check(self, kernel: Kernel) -> list[Diagnostic]:
        """Read the source only."""
        return check_source(kernel.files, kernel.main, target=self.target, surface=self.surface)

    def compile(self, kernel: Kernel, shapes: ShapeSet) -> CompileResult:
        """Check, trace and lay out a kernel at one choice of a task's sizes."""
        with self._sandbox.open() as session:
            return self._compile(kernel, shapes, session)

    def _compile(self, kernel: Kernel, shapes: ShapeSet, session: Session) -> CompileResult:
        return compile_kernel(
            kernel, shapes, target=self.target, session=session, surface=self.surface
        )

    def look(self, kernel: Kernel, shapes: ShapeSet) -> Look:
        """Compile a kernel and schedule it, without data."""
        return look_at(self.compile(kernel, shapes), shapes, self.target)

    def judge(
        self, kernel: Kernel, task: Task, *, root_seed: int, scope: Scope = Scope.PROOF
    ) -> Verdict:
        """The full verdict: five or six trials at the dev shapes, one at every other of the scope.

        Its speed is that at the perf shapes where the scope has them, else at the dev shapes.

        Raises:
            UsageError: No verdict can hold the seed.
            MachineError: This machine ran out of memory; that says nothing about the kernel.
        """
        require_seed(root_seed)
        try:
            with self._sandbox.open() as session:
                return self._judge(kernel, task, root_seed, scope, session)
        except MemoryError as error:
            raise MachineError("this machine ran out of memory while it judged a kernel") from error

    def _judge(
        self, kernel: Kernel, task: Task, root_seed: int, scope: Scope, session: Session
    ) -> Verdict:
        start_ns = self._clock.monotonic_ns()
        self._drawn.begin(task, root_seed)
        verdict = _Draft(kernel, task, self.target, root_seed, self.surface)
        claimed = task.dev if scope is Scope.PROOF else task.perf
        for shapes in task.shape_sets_in(scope):
            verdict.begin(shapes)
            compiled = self._compile(kernel, shapes, session)
            verdict.add_compiled(compiled)
            if compiled.stage is not None:
                break
            assert compiled.program is not None
            assert compiled.placement is not None
            # Where speed is claimed at the shapes of the proof, the proof is the claim.
            number = None if shapes is task.dev else 1
            run = self._run_trials(compiled.program, task, shapes, root_seed, number=number)
            verdict.add_run(run)
            if not run.right:
                break
            if shapes is claimed:
                verdict.add_speed(
                    shapes.name,
                    estimate_speed(
                        compiled.program, compiled.placement, shapes, self.target, trips=run.trips
                    ),
                )
        wall_ns = self._clock.monotonic_ns() - start_ns
        return verdict.finish(wall_ms=wall_ns / NS_PER_MS)

    def _run_trials(
        self, program: Program, task: Task, shapes: ShapeSet, root_seed: int, *, number: int | None
    ) -> _Run:
        """Run trials until one is wrong; `number` bounds them."""
        try:
            executable = compile_program(
                program,
                load_chip(self.target),
                memory_bytes_max=memory_bytes_max(shapes),
                steps_max=steps_max(shapes),
            )
        except KernelError as error:
            return _Run((), (error.diagnostic,), runs=False)
        trials: list[Trial] = []
        findings: list[Diagnostic] = []
        trips = Trips()
        for trial in make_trials(task, root_seed, shapes=shapes.name)[:number]:
            try:
                result, found, trips = _run_trial(executable, task, trial, shapes, self._drawn)
            except KernelError as error:
                # It compiled, and its run ended early: an index out of bounds, cores that wait.
                return _Run(tuple(trials), (*findings, error.diagnostic))
            trials.append(result)
            findings += [f for f in found if f not in findings]
            run = _Run(tuple(trials), tuple(findings), trips=trips)
            if not run.right:
                return run
        return _Run(tuple(trials), tuple(findings), trips=trips)


def _run_trial(
    executable: Executable, task: Task, trial: TaskTrial, shapes: ShapeSet, drawn: Drawn
) -> tuple[Trial, tuple[Diagnostic, ...], Trips]:
    inputs = drawn.inputs(trial)
    # Values out of an instruction's range show on standard or on big inputs, or not at all.
    with_checks = trial.index == 0 or trial.family is Family.BIG
    run = executable.run(inputs, with_checks=with_checks)
    actual: dict[str, Array] = {
        output.name: array for output, array in zip(shapes.outputs, run.outputs, strict=True)
    }
    for argument in shapes.updates:
        actual[argument.name] = run.updated.get(argument.name, inputs[argument.name])
    wanted = drawn.expected(trial, inputs)
    actual = accept_ties(task, trial, inputs, wanted, actual)
    compared = compare_fairly(task, trial, wanted, actual, inputs=inputs)
    outputs = tuple(_output_error(name, found) for name, found in compared.items())
    record = Trial(
        shapes=trial.shapes,
        number=trial.index,
        family=trial.family.value,
        seed=trial.seed,
        outputs=outputs,
    )
    return record, (*run.findings, *_wrong(record, compared)), run.trips


def _output_error(name: str, found: Comparison) -> OutputError:
    return OutputError(
        name=name,
        right=found.right,
        ratio=found.ratio,
        rel_l2=found.rel_l2,
        max_abs=found.max_abs,
        detail="" if found.right else found.detail,
        picture="" if found.mismatch is None else found.mismatch.picture,
    )


def _wrong(trial: Trial, compared: Mapping[str, Comparison]) -> list[Diagnostic]:
    findings = []
    for name, found in compared.items():
        if found.right:
            continue
        place = f"{clean(name)[:NAME_CHARACTERS]}` in trial {trial.number} ({trial.family} inputs,"
        mismatch = found.mismatch
        findings.append(
            Diagnostic(
                code="NK502" if found.num_not_finite else "NK501",
                what=f"output `{place} seed {trial.seed}): {found.reason}"
                + (f"; {mismatch}" if mismatch else ""),
                hint=str(mismatch.pattern if mismatch else "") or _FIRST_LOOK,
            )
        )
    return findings


class _Draft:
    """A verdict in the making."""

    def __init__(
        self, kernel: Kernel, task: Task, target: Target, root_seed: int, surface: Surface
    ) -> None:
        self._surface = surface
        self._kernel = kernel
        self._task = task
        self._target = target
        self._root_seed = root_seed
        self._stage = Stage.RIGHT
        self._diagnostics: list[Diagnostic] = []
        self._trials: list[Trial] = []
        self._program: Program | None = None
        self._speed: Speed | None = None
        self._speed_shapes: str | None = None
        self._shapes: ShapeSet | None = None

    def begin(self, shapes: ShapeSet) -> None:
        self._shapes = shapes

    def add_compiled(self, compiled: CompileResult) -> None:
        if compiled.stage is not None:
            self._stage = compiled.stage
        self._program = compiled.program
        self._add(compiled.diagnostics)

    def add_run(self, run: _Run) -> None:
        if not run.runs:
            self._stage = Stage.UNFIT
        elif not run.right:
            self._stage = Stage.WRONG
        self._trials += run.trials
        self._add(run.findings)

    def add_speed(self, shapes: str, speed: Speed) -> None:
        self._speed, self._speed_shapes = speed, shapes
        self._add(speed.timeline.findings)

    def _add(self, findings: tuple[Diagnostic, ...]) -> None:
        kept = map(bounded, findings)
        self._diagnostics += [f for f in kept if f not in self._diagnostics]

    def _name_shapes(self) -> str | None:
        shapes = self._shapes
        if self._stage is Stage.RIGHT or shapes is None or shapes.name == self._task.dev.name:
            return None
        sizes = ", ".join(f"`{t.name}` {list(t.shape)}" for t in shapes.tensors[:SIZES_SHOWN_MAX])
        return f"{shapes.name} ({sizes})"

    def finish(self, *, wall_ms: float) -> Verdict:
        program = self._program
        speed = self._speed if self._stage is Stage.RIGHT else None
        return Verdict(
            stage=self._stage,
            task=self._task.id,
            target=self._target.value,
            diagnostics=tuple(self._diagnostics),
            trials=tuple(self._trials),
            hashes=Hashes(
                kernel=self._kernel.hash,
                task=self._task.hash,
                program=None if program is None else hash_bytes(encode_program(program)),
            ),
            root_seed=self._root_seed,
            tool_version=nki_agent.__version__,
            task_notes=tuple(map(clean, (*self._task.notes, *self._task.unfit))),
            surface=self._surface,
            failed_at=self._name_shapes(),
            num_instructions=None if program is None else program.num_instructions,
            speed_shapes=None if speed is None else self._speed_shapes,
            latency_ns=None if speed is None else speed.timeline.latency_ns,
            bound_ns=None if speed is None else speed.bound.ns,
            bound_by=None if speed is None else speed.bound.resource.value,
            percent_of_bound=None if speed is None else speed.percent_of_bound,
            limited_by=None if speed is None else speed.timeline.limit.text,
            utilisation={}
            if speed is None
            else {e.value: speed.timeline.utilisation(e) for e in speed.timeline.busy_ns},
            wall_ms=wall_ms,
        )
