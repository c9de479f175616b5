"""What the tracing process is asked, and whether its answer fits the question.

Law: shapes, dtypes and static values of the task go in, nothing else; the answer is compared with
what was asked, so a Program for other arguments or another chip is refused.
"""

from __future__ import annotations

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.surface import Surface, list_withheld
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, TraceRequest
from nki_agent.program.records import Access, Program
from nki_agent.task.task import Argument, ShapeSet, TensorArgument
from nki_agent.verify.kernel import Kernel


def make_request(
    kernel: Kernel, shapes: ShapeSet, target: Target, surface: Surface = Surface.NKI
) -> TraceRequest:
    """The request to trace a kernel at one choice of the task's sizes."""
    return TraceRequest(
        files=kernel.files,
        main=kernel.main,
        arguments=tuple(_spec(argument) for argument in shapes.arguments),
        target=target,
        withheld=list_withheld(surface),
    )


def _spec(argument: Argument) -> ArgumentSpec:
    if isinstance(argument, TensorArgument):
        access = Access.UPDATE if argument.is_updated else Access.READ
        return ArgumentSpec(argument.name, argument.shape, argument.dtype, access=access)
    return ArgumentSpec(argument.name, value=argument.value)


def find_misfit(program: Program, request: TraceRequest) -> Diagnostic | None:
    """NK902 where a Program is not for the arguments and the target that were asked for."""
    asked = [
        (a.name, a.shape, a.dtype, a.value, type(a.value).__name__, a.access)
        for a in request.arguments
    ]
    found = [_described(program, number) for number in range(len(program.arguments))]
    if found == asked and program.target == request.target.value:
        return None
    return Diagnostic(
        code="NK902",
        what="the traced Program is for other arguments or another target than asked",
        hint="a kernel must only call `nki` functions",
    )


def _described(
    program: Program, number: int
) -> tuple[str, tuple[int, ...] | None, DType | None, object, str, Access]:
    argument = program.arguments[number]
    shape, dtype = None, None
    if argument.tensor is not None:
        tensor = program.tensors[argument.tensor]
        shape, dtype = tensor.shape, tensor.dtype
    kind = type(argument.value).__name__
    return argument.name, shape, dtype, argument.value, kind, argument.access


def check_results(program: Program, shapes: ShapeSet) -> list[Diagnostic]:
    """NK213 for every result whose shape or dtype is not the task's."""
    wanted = shapes.outputs
    if len(program.results) != len(wanted):
        return [
            Diagnostic(
                code="NK213",
                what="number of results of the kernel",
                got=str(len(program.results)),
                limit=f"{len(wanted)} ({', '.join(o.name for o in wanted)})",
                hint="return the outputs of the task in order, as a tuple if there are several",
            )
        ]
    findings = []
    for output, result in zip(wanted, program.results, strict=True):
        tensor = program.tensors[result.tensor]
        if (result.shape, tensor.dtype) != (output.shape, output.dtype):
            findings.append(
                Diagnostic(
                    code="NK213",
                    what=f"result `{output.name}`",
                    got=f"{list(result.shape)} {tensor.dtype.value}",
                    limit=f"{list(output.shape)} {output.dtype.value}",
                    where=program.stack(tensor.stack),
                    hint="allocate it with the shape and dtype of the task's output",
                )
            )
    return findings
