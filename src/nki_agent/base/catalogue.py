"""Every diagnostic code with its title, what it means and what to do. A code is never reused.

`docs/reference` has a page for each, made from this table by `make docs`.
"""

from __future__ import annotations

from typing import NamedTuple


class CodeInfo(NamedTuple):
    """One row of the catalogue."""

    code: str
    title: str
    explanation: str
    hint: str


_ROWS = (
    CodeInfo("NK101", "Source is not Python", "The file does not parse.", "Fix the syntax error."),
    CodeInfo(
        "NK102",
        "No kernel entry",
        "A kernel file has one `@nki.jit` function, or one named `kernel`.",
        "Decorate the entry with `@nki.jit` and name it `kernel`.",
    ),
    CodeInfo(
        "NK103",
        "Construct outside of the NKI language",
        "The NKI compiler accepts a subset of Python; comprehensions, `try`, `lambda`, generators,"
        " `async` and classes with other bases are not part of it.",
        "Write a plain `for` loop, `if` or helper function.",
    ),
    CodeInfo(
        "NK104",
        "Unknown name",
        "The module has no such function, operator, dtype or constant.",
        "Check the spelling; the message names the nearest ones.",
    ),
    CodeInfo(
        "NK105",
        "Wrong arguments",
        "The call does not fit the function's signature.",
        "Compare with the signature in the message.",
    ),
    CodeInfo(
        "NK106",
        "Wrong dialect",
        "The code uses the older `neuronxcc.nki` dialect (masks, `nl.arange`, returned tiles).",
        "Use the current dialect: `dst` first, slices in place of masks.",
    ),
    CodeInfo(
        "NK107",
        "Import not allowed",
        "A kernel may import `nki`, `numpy`, `math`, `ml_dtypes`, `typing`, `enum`, `dataclasses`,"
        " `functools`, `itertools` and helper modules beside it.",
        "Remove the import.",
    ),
    CodeInfo(
        "NK108",
        "Identity comparison",
        "`is` is legal with None, True and False only.",
        "Use `==`.",
    ),
    CodeInfo(
        "NK109",
        "The kernel raised an error",
        "Python code of the kernel raised while it was traced.",
        "Read the message and the line; shapes are known while tracing, values are not.",
    ),
    CodeInfo(
        "NK110",
        "A tensor has no value while tracing",
        "A kernel never sees data; `float(t)`, `if t:`, iteration and NumPy conversion need it.",
        "Compute with `nisa` instructions; branch on shapes and static arguments only.",
    ),
    CodeInfo(
        "NK111",
        "Tracing did not finish",
        "The kernel used too much time or memory, or ended its process.",
        "Use larger tiles and fewer instructions; a kernel must not run host work.",
    ),
    CodeInfo(
        "NK112",
        "Arguments or results do not fit the task",
        "The entry takes the task's inputs in order, then its parameters and buffers, and returns"
        " `shared_hbm` tensors in output order.",
        "Compare the signature with the task's arguments in the message.",
    ),
    CodeInfo(
        "NK113",
        "Reads a global that can change",
        "A compiled kernel is cached, so a module global that changes later has no effect.",
        "Pass the value as an argument, or make it a constant.",
    ),
    CodeInfo(
        "NK114",
        "Not modelled",
        "The function or option is part of NKI but this version does not model it.",
        "docs/reference/coverage.md lists what is modelled.",
    ),
    CodeInfo(
        "NK115",
        "Python operator on a tensor",
        "NkiTensor has no arithmetic operators.",
        "Use `nl.add(x, y)` or `nisa.tensor_tensor(...)`.",
    ),
    CodeInfo(
        "NK116",
        "Launch not allowed",
        "The current dialect launches on 1 or 2 cores.",
        "Call `kernel(x)` or `kernel[2](x)`; a file that is judged may set `grid` to 1 or 2.",
    ),
    CodeInfo(
        "NK117",
        "Too much work to simulate",
        "The judge runs a kernel on several seeds; its instructions may pass over 2**36 elements in"
        " one run, far more than any task of the benchmark needs.",
        "Remove repeated work.",
    ),
    CodeInfo(
        "NK118",
        "Deprecated name",
        "The name works, does what its successor does, and will be removed from NKI.",
        "Use the successor; `nki-agent check --fix` does it where that is mechanical.",
    ),
    CodeInfo(
        "NK119",
        "Off the surface",
        "On the surface `isa` a kernel is instructions of `nki.isa` on tensors whose `address` it"
        " gives. Of `nki.language` it may use names of dtypes, memories and operators, `ndarray`,"
        " `tile_size`, `program_id`, `num_programs`, `program_ndim`, `ds`, `fori_loop`,"
        " `while_loop`, `no_reorder` and `device_print`; of `nki.collectives` nothing.",
        "Use an instruction of `nki.isa`, and give tensors in SBUF and PSUM an `address`.",
    ),
    CodeInfo(
        "NK201",
        "Too many partitions",
        "SBUF and PSUM have 128 partitions.",
        "Split the first dimension into tiles of at most 128 rows.",
    ),
    CodeInfo(
        "NK202",
        "Out of bounds",
        "An index, a slice or an access pattern reaches outside of its tensor.",
        "Clip the tail tile: `size = min(tile, total - start)`.",
    ),
    CodeInfo(
        "NK203",
        "Tensor shape not allowed",
        "On-chip tensors have a partition and at least one free dimension, all positive.",
        "Use (P, 1) or (1, F) in place of a 1-D tile.",
    ),
    CodeInfo(
        "NK204",
        "Matmul result crosses a PSUM bank",
        "One matmul writes inside one 2 KiB bank of each partition.",
        "Give each matmul a PSUM tile of at most 512 float32 columns.",
    ),
    CodeInfo(
        "NK205",
        "SBUF is full",
        "The tensors that are live together need more bytes in a partition than a kernel can have.",
        "Use smaller free sizes, reuse tiles, or load a block at a time.",
    ),
    CodeInfo(
        "NK206",
        "PSUM is full",
        "PSUM has 8 banks of 2 KiB in each partition.",
        "Copy results to SBUF sooner, or accumulate fewer tiles at a time.",
    ),
    CodeInfo(
        "NK207",
        "Reads memory that was never written",
        "The bytes hold whatever was there before.",
        "Write the tile first (`nisa.dma_copy`, `nisa.memset`); check the tail.",
    ),
    CodeInfo(
        "NK208",
        "Output not fully written",
        "Some elements of a returned tensor are never written.",
        "Cover the tail: loop over ceil(n / tile) tiles and clip the last one.",
    ),
    CodeInfo(
        "NK209",
        "Addresses overlap",
        "Two tensors that are live together share bytes by their `address=`.",
        "Give them disjoint addresses, or leave `address` out.",
    ),
    CodeInfo(
        "NK210",
        "View not possible",
        "The view cannot be expressed on this memory layout.",
        "See the constraint in the message.",
    ),
    CodeInfo(
        "NK211",
        "Start partition not allowed",
        "An access of more than 64 partitions starts at 0, of more than 32 at 0 or 64, else at a"
        " multiple of 32.",
        "Give the tile its own tensor, or move it with `nisa.dma_copy`.",
    ),
    CodeInfo(
        "NK212",
        "Writes an input",
        "The task does not declare this argument as updated in place.",
        "Allocate an output with `nl.ndarray(..., buffer=nl.shared_hbm)`.",
    ),
    CodeInfo(
        "NK213",
        "Result does not fit the task's output",
        "Shape or dtype of a returned tensor differs from the reference.",
        "Allocate the output with the shape and dtype of the task.",
    ),
    CodeInfo(
        "NK214",
        "Accumulates onto PSUM that no matmul started",
        "`accumulate=True` on stale PSUM contents is undefined on the hardware.",
        "Leave `accumulate` out, or pass False for the first matmul.",
    ),
    CodeInfo(
        "NK215",
        "Address not allowed",
        "An explicit address is outside of the memory or not aligned.",
        "See the limit in the message.",
    ),
    CodeInfo(
        "NK216",
        "Tensor used outside of its loop",
        "A tensor that a run-time loop's body makes ends with the loop.",
        "Allocate it before the loop.",
    ),
    CodeInfo(
        "NK301",
        "Operand in the wrong memory",
        "Each operand of an instruction has the memories that its engine can reach.",
        "Copy the tile to an allowed memory.",
    ),
    CodeInfo(
        "NK302",
        "Operand has the wrong dtype",
        "The instruction does not take this number format there.",
        "Cast with `nisa.tensor_copy` into a tile of an allowed dtype.",
    ),
    CodeInfo(
        "NK303",
        "Partition counts differ",
        "Operands of an instruction cover the same number of partitions.",
        "Slice them to the same number of rows.",
    ),
    CodeInfo(
        "NK304",
        "Free sizes differ",
        "Operands of an instruction hold the same number of elements in a partition.",
        "Slice or broadcast them to the same free size.",
    ),
    CodeInfo(
        "NK305",
        "Operand too large for the instruction",
        "The instruction bounds the size of this operand.",
        "Split it into several instructions.",
    ),
    CodeInfo(
        "NK306",
        "No such engine for this call",
        "The engine cannot run the instruction with these operands.",
        "Leave `engine` out, or choose an allowed one.",
    ),
    CodeInfo(
        "NK307",
        "Operator not allowed",
        "The instruction does not take this operator there.",
        "Choose one of the operators in the message.",
    ),
    CodeInfo(
        "NK308",
        "Attribute value not allowed",
        "An argument that is no tensor has a value that the instruction does not take.",
        "See the limit in the message.",
    ),
    CodeInfo(
        "NK309",
        "Both inputs in PSUM",
        "The engine reads at most one of the two inputs from PSUM.",
        "Copy one of them to SBUF.",
    ),
    CodeInfo(
        "NK310",
        "Element counts differ",
        "A DMA moves the same number of elements on both sides.",
        "Slice both sides to the same shape.",
    ),
    CodeInfo(
        "NK311",
        "Not on this chip",
        "The target's generation does not have this.",
        "Choose another `--target`, or other instructions.",
    ),
    CodeInfo(
        "NK312",
        "Scalar operand has the wrong shape",
        "A per-partition scalar is a tile of shape (P, 1).",
        "Pass a (P, 1) tile or a number.",
    ),
    CodeInfo(
        "NK313",
        "Fails on hardware",
        "The function works in simulators and fails when compiled for a device.",
        "Use the replacement in the message.",
    ),
    CodeInfo(
        "NK401",
        "Order that cannot be kept",
        "Explicit orders hold within one body; run-time loops do not lie inside `nl.no_reorder`.",
        "Put both instructions in one body, or the `no_reorder` block inside the loop.",
    ),
    CodeInfo(
        "NK402",
        "Cores read shared memory without a barrier",
        "A core reads bytes of a shared tensor that the other core writes, no barrier between.",
        "Call `nisa.core_barrier(data=tensor, cores=(0, 1))` after the writes.",
    ),
    CodeInfo(
        "NK403",
        "Cores or ranks wait for each other for ever",
        "A barrier, an exchange or a collective has no partner on another core or rank.",
        "Let all of them reach the same barriers, exchanges and collectives in the same order.",
    ),
    CodeInfo(
        "NK501",
        "Wrong result",
        "An output differs from the reference by more than the task's tolerance.",
        "See which element differs and the pattern in the message.",
    ),
    CodeInfo(
        "NK502",
        "Result is not finite",
        "An output holds NaN or infinity where the reference is finite.",
        "Subtract the row maximum before exp; check for reads of unwritten memory.",
    ),
    CodeInfo(
        "NK503",
        "Activation outside of its valid range",
        "The Scalar Engine's result is not valid for inputs outside of the function's range.",
        "Clamp or rescale the input.",
    ),
    CodeInfo(
        "NK504",
        "Integer too large for float32 arithmetic",
        "Arithmetic runs in float32 except for 32-bit integers on the GpSimd Engine; above 2**24 an"
        " integer is rounded.",
        "Use bitwise operators, 16-bit halves, or `nisa.tensor_tensor` on int32 tiles in SBUF.",
    ),
    CodeInfo(
        "NK505",
        "Value too large for an 8-bit float",
        "A value past the format's largest becomes infinity, or NaN where the format has none.",
        "Scale the tile by its largest magnitude first, or use bfloat16.",
    ),
    CodeInfo(
        "NK506",
        "Value that the instruction does not take",
        "A tensor holds a run-time value for which the instruction's result is not defined.",
        "See the limit in the message.",
    ),
    CodeInfo(
        "NK601",
        "Many small DMA transfers",
        "Descriptors shorter than 512 bytes waste most of the bandwidth.",
        "Move larger contiguous rows; transpose on chip.",
    ),
    CodeInfo(
        "NK602",
        "Run-time loop counted once",
        "The latency takes one iteration of a loop whose bounds only a run knows.",
        "Give the counts of a run, or read the latency as that of one iteration.",
    ),
    CodeInfo(
        "NK901",
        "Output does not depend on the inputs",
        "No input reaches this output through the traced instructions.",
        "Compute the output from the arguments.",
    ),
    CodeInfo(
        "NK902",
        "Forged Program",
        "What the tracing process returned cannot come from an honest trace.",
        "A kernel must only call `nki` functions.",
    ),
    CodeInfo(
        "NK903",
        "Tampers with the tracer or its process",
        "The source reaches for interpreter internals, the tracer's modules or the system.",
        "Remove it: kernels only call `nki` functions.",
    ),
)

CATALOGUE: dict[str, CodeInfo] = {row.code: row for row in _ROWS}
"""Every code, in order."""
