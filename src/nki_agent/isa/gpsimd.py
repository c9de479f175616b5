"""Declarations of the GpSimd Engine's instructions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    Rule,
    any_of,
    option,
    output,
    source,
)
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.passes import per_element
from nki_agent.isa.rules import one_family, reduction_op, same_free, same_partitions

PATTERN_DIMS_MAX = 4
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _pattern_covers(role: str) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        pattern = call.attribute("pattern")
        assert isinstance(pattern, tuple)
        elems = call.get(role).pattern.free_elems
        covered = math.prod(count for _, count in pattern)
        if len(pattern) > PATTERN_DIMS_MAX or covered != elems:
            yield Diagnostic(
                code="NK308",
                what=f"elements of `pattern` of `{call.declaration.name}`",
                got=f"{covered} in {len(pattern)} dimensions",
                limit=f"{elems} in at most {PATTERN_DIMS_MAX}, the free size of `{role}`",
                hint="`pattern` is [[step, count], ...] over the free axes",
            )

    return rule


def _one_partition(call: Call) -> Iterator[Diagnostic]:
    partitions = call.get("dst").pattern.partitions
    if partitions != 1:
        yield Diagnostic(
            code="NK303",
            what="partitions of `dst` of `tensor_partition_reduce`",
            got=str(partitions),
            limit="1",
            hint="allocate `dst` with shape (1, F)",
        )


GPSIMD = (
    Declaration(
        name="iota",
        parameters=(
            output("dst", Memory.SBUF),
            option("pattern", Kind.AFFINE_PATTERN),
            option("offset", Kind.INT, 0),
            option("channel_multiplier", Kind.INT, 0),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(_pattern_covers("dst"),),
        cycles=per_element("dst"),
        page="nki.isa.iota",
    ),
    Declaration(
        name="affine_select",
        parameters=(
            output("dst", Memory.SBUF),
            option("pattern", Kind.AFFINE_PATTERN),
            option("channel_multiplier", Kind.INT),
            source("on_true_tile", Memory.SBUF),
            option("on_false_value", Kind.VALUE),
            option("cmp_op", Kind.ALU_OP, "equal"),
            option("offset", Kind.INT, 0),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(
            same_partitions("dst", "on_true_tile"),
            same_free("dst", "on_true_tile"),
            reduction_op("cmp_op", *COMPARE),
            _pattern_covers("dst"),
        ),
        cycles=per_element("dst"),
        page="nki.isa.affine_select",
    ),
    Declaration(
        name="tensor_partition_reduce",
        parameters=(
            output("dst", Memory.SBUF),
            option("op", Kind.ALU_OP),
            source("data", Memory.SBUF),
        ),
        engines=any_of(Engine.GPSIMD),
        rules=(
            same_free("dst", "data"),
            _one_partition,
            one_family("op"),
            reduction_op("op", "add", "average", "maximum", "bitwise_or", "bitwise_and"),
        ),
        cycles=per_element("data", 8.0),
        page="nki.isa.tensor_partition_reduce",
    ),
)
"""Instructions whose home is the GpSimd Engine."""
