"""A task in words, for people and prompts."""

from __future__ import annotations

from nki_agent.task.family import Family
from nki_agent.task.task import Output, StaticArgument, Task, TensorArgument
from nki_agent.task.tolerance import Gate, Tolerance


def describe_task(task: Task) -> str:
    """What a kernel is given and must give back, how it is judged, and what loading noted."""
    lines = [f"task {task.id}: {task.form.value} `{task.entry}`", "arguments, in order:"]
    lines += [f"  {_describe_argument(a)}" for a in task.arguments]
    lines.append("results, in order:")
    lines += [f"  {_describe_output(task, o)}" for o in task.outputs]
    for shapes in task.shape_sets[1:]:
        sizes = ", ".join(f"{t.name} {_write_shape(t)}" for t in shapes.tensors)
        lines.append(f"also at {shapes.name}: {sizes}")
    if task.updates:
        lines.append(f"updated in place: {', '.join(task.updates)}")
    lines.append(f"trials: three standard, {_describe_scales(task)}")
    work = task.work
    lines.append(
        f"least work: {work.min_hbm_bytes} bytes of HBM, {work.matmul_flops} matmul FLOPs, "
        f"{work.elementwise_elems} elements through another engine"
    )
    lines += [f"note: {note}" for note in task.notes]
    return "\n".join(lines)


def _describe_argument(argument: TensorArgument | StaticArgument) -> str:
    if isinstance(argument, StaticArgument):
        return f"{argument.name} = {argument.value!r} (static)"
    original = "" if argument.original == argument.name else f", `{argument.original}` in the file"
    updated = ", updated in place" if argument.is_updated else ""
    return f"{argument.name}: {argument.kind} {_describe_tensor(argument)}{original}{updated}"


def _describe_tensor(tensor: TensorArgument | Output) -> str:
    return f"{tensor.dtype.value} {_write_shape(tensor)}"


def _write_shape(tensor: TensorArgument | Output) -> str:
    return f"[{', '.join(map(str, tensor.shape))}]"


def _describe_output(task: Task, output: Output) -> str:
    rule = _describe_rule(task.tolerance_of(output))
    return f"{output.name}: {_describe_tensor(output)}, {rule} ({task.tolerance})"


def _describe_rule(limits: Tolerance) -> str:
    match limits.gate:
        case Gate.EXACT:
            return "equal element for element"
        case Gate.CODES:
            return "equal codes, or one step off near a tie"
        case Gate.REAL:
            return f"relative L2 error at most {limits.rel_l2:g}"


def _describe_scales(task: Task) -> str:
    parts = []
    for family in (Family.BIG, Family.TINY, Family.LOW):
        if family is Family.LOW and family not in task.dev.scales:
            continue
        scale = task.dev.scale_of(family)
        offset = f" {scale.offset:+g}" if scale.offset else ""
        offset += f", ±{scale.spike:g} at places" if scale.spike else ""
        offset += f", ×±{scale.outlier:g} at places" if scale.outlier else ""
        offset += ", rows of scores below zero" if scale.lean else ""
        slack = f", tolerance ×{scale.slack:g}" if scale.slack != 1.0 else ""
        parts.append(f"one {family} (inputs ×{scale.factor:g}{offset}{slack})")
    return ", ".join(parts)
