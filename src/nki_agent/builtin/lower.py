"""Elementwise nodes and row reductions as NKI instructions, fused where one pass does for two.

Law: everything is computed in float32 and rounded once, in the step that writes a result.
"""

from __future__ import annotations

from dataclasses import replace

from nki_agent.builtin.graph import BITS, Node, Op, UnsupportedError, is_position_mask
from nki_agent.builtin.lanes import lower_lanes
from nki_agent.builtin.pending import (
    NAMES,
    REDUCED_NAMES,
    SCALAR_PAIR,
    Pending,
    Place,
    Tiles,
    Value,
)
from nki_agent.builtin.scans import lower_scan
from nki_agent.builtin.tile_steps import (
    WIDE,
    Activate,
    AffineSelect,
    Combine,
    Copy,
    CopyWhere,
    Fill,
    Invert,
    Kind,
    Load,
    Operand,
    Reduce,
    Scalar,
    Scale,
    ScaleCombine,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.builtin.whole import is_whole
from nki_agent.isa.dtype import DType

_COMMUTATIVE = frozenset(
    {"add", "multiply", "maximum", "minimum", "equal", "not_equal"}
    | {"logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"}
)
_MIRRORED = {
    "less": "greater",
    "greater": "less",
    "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}
_OPPOSITE = {
    "less": "greater_equal", "greater_equal": "less", "greater": "less_equal",
    "less_equal": "greater", "equal": "not_equal", "not_equal": "equal",
}  # fmt: skip
EIGHT_BIT_FLOATS = frozenset({DType.FLOAT8_E4M3, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2})
ON_SCALAR = frozenset({"add", "multiply"})
"""Operators that the Scalar Engine has as well."""
_ACTIVATIONS = frozenset(
    {"exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "relu", "gelu", "silu"}
    | {"gelu_apprx_tanh", "mish", "erf", "softplus", "square", "sign", "abs", "arctan"}
)


class Lowering(Tiles):
    """Lowers the nodes of one stage, in graph order."""

    # -- nodes ------------------------------------------------------------------------------------
    def lower(self, node: Node) -> None:
        """Lower one node."""
        match node.op:
            case Op.INPUT | Op.CONST | Op.STATE | Op.VIEW | Op.IOTA:
                return
            case Op.BINARY if is_position_mask(self.graph.nodes, node):
                return  # made where it is needed: a choice by position has its own instruction
            case Op.UNARY:
                self._values[node.id] = self._unary(node)
            case Op.BINARY:
                self._values[node.id] = self._binary(node)
            case Op.WHERE:
                self._values[node.id] = self._where(node)
            case Op.REDUCE:
                self._values[node.id] = self._reduce(node)
            case Op.LANES:
                level = len(self.levels) - 1
                self._values[node.id] = self._pending(lower_lanes(self, node, level))
            case Op.SCAN:
                self._values[node.id] = self._pending(lower_scan(self, node))
            case (
                Op.SOFTMAX
                | Op.MATMUL
                | Op.TRANSPOSE
                | Op.FOLD
                | Op.CONVOLUTION
                | Op.POOL
                | Op.PARTS
                | Op.PICK
            ):
                raise AssertionError(f"{node.op} is taken apart before it is lowered")

    def _chain(self, node: Node, value: Value, scalar: Scalar) -> Value:
        """Append a scalar operator."""
        if isinstance(value, tuple):
            raise UnsupportedError(node.origin, "an operator on two constants")
        place = self.places[node.id]
        if place.kind in WIDE and value.kind not in WIDE:
            value = self._widened(value, place)
        if _changes_nothing(scalar, value) and place == Place(value.kind, value.level):
            return value
        if len(value.scalars) >= SCALAR_PAIR:
            value = self._with_fewer(node, value)
        return Pending(value.tile, (*value.scalars, scalar), place.kind, place.level)

    def _with_fewer(self, node: Node, value: Pending) -> Pending:
        """A value with room for one more operator on the way."""
        first, second = value.scalars
        if first.op in ON_SCALAR and second.op not in ON_SCALAR and value.kind in WIDE:
            # Alone it may go to the Scalar Engine; the others share an instruction anyhow.
            alone = Pending(value.tile, (first,), value.kind, value.level)
            return Pending(self.apply(alone, "scaled"), (second,), value.kind, value.level)
        return self._pending(self._apply_once(node, value, "scaled"))

    def _apply_once(self, node: Node, value: Pending, wanted: str) -> Tile:
        """An operand in a tile, the same for all its readers: two ways round differently."""
        known = (i for i in node.inputs if i in self._values and self._values[i] == value)
        source = next(known, None)
        return self.apply(value, wanted) if source is None else self.settle(source, wanted)

    def _widened(self, value: Pending, place: Place) -> Pending:
        """One value for a row, repeated in each of its columns."""
        narrow = self.apply(value, "repeated")
        zeros = self.tile("zeros", place)
        self.emit(place.level, Fill(dst=zeros, value=self.number(0)))
        return Pending(zeros, (Scalar(op="add", operand=narrow),), place.kind, place.level)

    def _unary(self, node: Node) -> Value:
        source = node.inputs[0]
        value = self.value(source)
        place = self.places[node.id]
        if isinstance(value, tuple) and node.function == "copy":
            return value
        if isinstance(value, tuple):
            raise UnsupportedError(node.origin, "a function of a constant")
        if node.function == "copy":
            return self._cast(node, Pending(value.tile, value.scalars, place.kind, place.level))
        if node.function == "negative":
            return self._chain(node, value, Scalar(op="multiply", operand=self.number(-1)))
        if node.function == "reciprocal" and place.kind in (Kind.ROW, Kind.ONE):
            return self._inverse(source)
        if node.function in _ACTIVATIONS:
            return self._pending(self._activate(node.function, value, place, node.label))
        if node.function in ("floor", "ceil", "round", "trunc"):
            return self._round(node, value, place)
        if node.function in ("sin", "cos"):
            return self._sine(node, value, place)
        raise UnsupportedError(node.origin, f"there is no instruction for `{node.function}`")

    def _cast(self, node: Node, value: Pending) -> Value:
        """Floats stay as they are until they are stored, but for what loses more than digits."""
        place = self.places[node.id]
        source = self.graph[node.inputs[0]]
        if node.dtype in EIGHT_BIT_FLOATS:
            return self._pending(self.apply(value, "codes", node.dtype))
        if node.dtype is DType.BOOL and source.dtype is not DType.BOOL:
            return self._chain(node, value, Scalar(op="not_equal", operand=self.number(0)))
        if node.dtype.is_integer and not is_whole(self.graph, source.id):
            return self._truncate(value, place)
        return value

    def _truncate(self, value: Pending, place: Place) -> Value:
        """Towards zero: the nearest whole number below the magnitude, with the sign."""
        value = self._pending(self.apply(value, "scaled"))
        magnitude = self._pending(self._activate("abs", value, place))
        below = self._step_back(magnitude, place, "greater", "subtract", "whole")
        sign = self._activate("sign", value, place)
        dst = self.tile("truncated", place)
        self._both(place, dst=dst, first=below, second=sign, op="multiply")
        return self._pending(dst)

    # -- two operands -----------------------------------------------------------------------------
    def _binary(self, node: Node) -> Value:
        if node.function == "divide":
            return self._divide(node)
        if node.function == "power":
            return self._power(node)
        if node.function in BITS:
            return self._bits(node)
        return self._pair(node, node.function, *node.inputs)

    def _bits(self, node: Node) -> Value:
        """Bit by bit, on tiles of whole numbers."""
        place = self.places[node.id]
        first, second = node.inputs
        if isinstance(self.value(first), tuple) or self.value(first).kind is not place.kind:  # type: ignore[union-attr]
            first, second = second, first
            if node.function not in _COMMUTATIVE:
                raise UnsupportedError(node.origin, "its first operand is broadcast")
        data = self._as_whole(first)
        other = self.value(second)
        dst = self.tile("bits", place, DType.INT32)
        if isinstance(other, tuple):
            scalar = Scalar(op=node.function, operand=tuple(int(n) for n in other))
            self.emit(place.level, Scale(dst=dst, data=data, scalars=(scalar,)))
        else:
            pair = Combine(dst=dst, first=data, second=self._as_whole(second), op=node.function)
            self.emit(place.level, pair)
        return self._pending(dst)

    def _as_whole(self, node_id: int) -> Tile:
        """The value in a tile of a dtype with bits."""
        value = self.value(node_id)
        assert isinstance(value, Pending)
        if not value.scalars and not value.tile.dtype.is_float and not value.tile.in_psum:
            return value.tile
        return self.apply(value, "whole", DType.INT32)

    def _pair(self, node: Node, op: str, first: int, second: int) -> Value:
        a, b = self.value(first), self.value(second)
        if self._is_narrow(b):
            if isinstance(a, tuple) and isinstance(b, tuple):
                raise UnsupportedError(node.origin, "an operator on two constants")
            if not isinstance(a, tuple):
                return self._chain(node, a, Scalar(op=op, operand=self._as_scalar(second)))
        if self._is_narrow(a):
            return self._chain(node, b, self._swapped(op, self._as_scalar(first)))
        assert isinstance(a, Pending)
        assert isinstance(b, Pending)
        return self._combine(node, op, first, second)

    @staticmethod
    def _swapped(op: str, operand: Operand) -> Scalar:
        """`operand op x` as a scalar operator on x."""
        if op in _COMMUTATIVE:
            return Scalar(op=op, operand=operand)
        if op in _MIRRORED:
            return Scalar(op=_MIRRORED[op], operand=operand)
        return Scalar(op=op, operand=operand, reverse=True)

    def _is_narrow(self, value: Value) -> bool:
        """Whether a value can be the scalar operand of an instruction."""
        if isinstance(value, tuple) or value.kind is Kind.ONE:
            return True
        return value.kind is Kind.ROW and not self.is_packed

    def _combine(self, node: Node, op: str, first: int, second: int) -> Pending:
        """Two wide values: one pending scalar operator rides along for nothing."""
        a, b = self.value(first), self.value(second)
        assert isinstance(a, Pending)
        assert isinstance(b, Pending)
        place = self.places[node.id]
        wanted = node.label or NAMES.get(op, op)
        if len(a.scalars) != 1 and len(b.scalars) == 1:
            other = self.settle(first)
            dst = self.tile(wanted, place)
            self.emit(
                place.level,
                ScaleCombine(
                    dst=dst,
                    data=b.tile,
                    scalar=b.scalars[0],
                    op=op,
                    other=other,
                    reverse=op not in _COMMUTATIVE,
                ),
            )
        elif len(a.scalars) == 1:
            other = self.settle(second)
            dst = self.tile(wanted, place)
            self.emit(
                place.level,
                ScaleCombine(dst=dst, data=a.tile, scalar=a.scalars[0], op=op, other=other),
            )
        else:
            pair = self._raw(first), self._raw(second)
            if all(tile.in_psum for tile in pair):
                copied = self.apply(self._pending(pair[1]), "copied")
                pair = (copied if pair[0] == pair[1] else pair[0]), copied
            dst = self.tile(wanted, place)
            self.emit(place.level, Combine(dst=dst, first=pair[0], second=pair[1], op=op))
        return self._pending(dst)

    def _raw(self, node_id: int) -> Tile:
        """A tile that may be in PSUM, when nothing is pending on it."""
        value = self.value(node_id)
        assert isinstance(value, Pending)
        return value.tile if not value.scalars else self.settle(node_id)

    def _divide(self, node: Node) -> Value:
        first, second = node.inputs
        a, b = self.value(first), self.value(second)
        if isinstance(b, tuple):
            if isinstance(a, tuple) or 0.0 in b:
                raise UnsupportedError(node.origin, "a division of constants, or by zero")
            inverse = tuple(1.0 / number for number in b)
            return self._chain(node, a, Scalar(op="multiply", operand=inverse))
        inverted = self._inverse(second)
        if isinstance(a, tuple):
            if all(number == 1.0 for number in a):
                return inverted
            return self._chain(node, inverted, Scalar(op="multiply", operand=a))
        if self._is_narrow(inverted):
            return self._chain(node, a, Scalar(op="multiply", operand=inverted.tile))
        if self._is_narrow(a):
            return self._chain(
                node, inverted, Scalar(op="multiply", operand=self._as_scalar(first))
            )
        place = self.places[node.id]
        if len(a.scalars) == 1:
            dst = self.tile("quotient", place)
            self.emit(
                place.level,
                ScaleCombine(
                    dst=dst, data=a.tile, scalar=a.scalars[0], op="multiply", other=inverted.tile
                ),
            )
        else:
            dividend = self._raw(first)
            dst = self.tile("quotient", place)
            step = Combine(dst=dst, first=dividend, second=inverted.tile, op="multiply")
            self.emit(place.level, step)
        return self._pending(dst)

    def _inverse(self, node_id: int) -> Pending:
        """1 / value: exact for a column, through the Scalar Engine's table for a wide tile."""
        base = self.graph.base(node_id).id
        if base in self._inverses:
            return self._inverses[base]
        value = self.value(node_id)
        assert isinstance(value, Pending)
        place = Place(value.kind, value.level)
        if value.kind in (Kind.ROW, Kind.ONE):
            source = self.settle(node_id, self._row_name(node_id))
            tile = self.tile(f"inverse_{source.name.removeprefix('row_')}", place)
            self.emit(place.level, Invert(dst=tile, data=source))
        else:
            tile = self._activate("reciprocal", value, place)
        self._inverses[base] = self._pending(tile)
        return self._inverses[base]

    def _power(self, node: Node) -> Value:
        base, exponent = node.inputs
        power = self.value(exponent)
        place = self.places[node.id]
        value = self.value(base)
        if isinstance(power, tuple) and isinstance(value, Pending):
            known = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(power[0])
            if power[0] == 1.0:
                return value
            if known is not None:
                return self._pending(self._activate(known, value, place))
            if power[0] == -1.0:
                return self._inverse(base)
            if power[0] == 3.0:  # noqa: PLR2004 - x * x * x is two exact passes
                return self._cube(base, value, place)
        if isinstance(value, Pending):
            self.settle(base)
        if isinstance(power, Pending):
            self.settle(exponent)
        return self._pair(node, "power", base, exponent)

    def _cube(self, base: int, value: Pending, place: Place) -> Value:
        squares = self._activate("square", value, place)
        data = self.settle(base)
        dst = self.tile("cubes", place)
        if self._is_narrow(self._pending(data)):
            times = Scalar(op="multiply", operand=data)
            self.emit(place.level, Scale(dst=dst, data=squares, scalars=(times,)))
        else:
            self.emit(place.level, Combine(dst=dst, first=squares, second=data, op="multiply"))
        return self._pending(dst)

    # -- choices and rounding ---------------------------------------------------------------------
    def _where(self, node: Node) -> Value:
        condition, first, second = node.inputs
        place = self.places[node.id]
        if (chosen := self._select(node, place)) is not None:
            return chosen
        mask, is_reversed = self._predicate(condition)
        dst = self.tile("chosen", place)
        otherwise = self.value(second)
        if isinstance(otherwise, tuple):
            self.emit(place.level, Fill(dst=dst, value=otherwise))
        elif otherwise.scalars:
            step = Scale(dst=dst, data=otherwise.tile, scalars=otherwise.scalars)
            self.emit(place.level, step)
        else:
            self.emit(place.level, Copy(dst=dst, src=otherwise.tile))
        picked = self.value(first)
        source: Operand = picked if isinstance(picked, tuple) else self._as_float32(first, place)
        choice = CopyWhere(dst=dst, src=source, predicate=mask, is_reversed=is_reversed)
        self.emit(place.level, choice)
        return self._pending(dst)

    def _predicate(self, condition: int) -> tuple[Tile, bool]:
        """What is not 0 where a condition holds; or, with the second, where it does not.

        A whole number without a sign that is compared with 0 says so itself.
        """
        value = self.value(condition)
        if isinstance(value, Pending) and value.kind is value.tile.kind and len(value.scalars) == 1:
            (only,) = value.scalars
            is_zero = isinstance(only.operand, tuple) and not any(only.operand)
            asked = only.op in ("equal", "not_equal", "greater") and not only.reverse
            if is_zero and asked and value.tile.dtype is DType.UINT8:
                return value.tile, only.op == "equal"
        return self.settle(condition, "mask", DType.UINT8), False

    def _select(self, node: Node, place: Place) -> Value | None:
        """A choice between a tile and a number by position; None if it is another choice."""
        condition, first, second = node.inputs
        test = self.graph[condition]
        if not is_position_mask(self.graph.nodes, test):
            return None
        op, kept, number = test.function, first, self.value(second)
        if isinstance(self.value(first), tuple):
            op, kept, number = _OPPOSITE[op], second, self.value(first)
        value = self.value(kept)
        if (
            not isinstance(number, tuple)
            or isinstance(value, tuple)
            or value.kind is not place.kind
        ):
            return None
        data = self.apply(value, "scaled")
        dst = data if self._is_own(kept, data) else self.tile("chosen", place)
        access = self.positions[test.inputs[0]][1]
        self.emit(place.level, AffineSelect(dst=dst, data=data, access=access, op=op, value=number))
        return self._pending(dst)

    def _is_own(self, node_id: int, tile: Tile) -> bool:
        """Whether nobody else reads a tile, so that it may be changed in place."""
        steps = self.levels[tile.level]
        made = [step for step in steps if tile in step_writes(step)]
        readers = [step for level in self.levels for step in level if tile in step_reads(step)]
        loaded = any(isinstance(step, Load) for step in made)
        others = [step for step in readers if not isinstance(step, AffineSelect)]
        return bool(made) and not loaded and not others and self.num_readers(node_id) == 1

    def _as_float32(self, node_id: int, place: Place) -> Tile:
        tile = self.settle(node_id)
        if tile.dtype is DType.FLOAT32 and tile.kind is place.kind:
            return tile
        wide = self.tile("widened", place)
        self.emit(place.level, Copy(dst=wide, src=tile))
        return wide

    def _round(self, node: Node, value: Pending, place: Place) -> Value:
        """Through int32, which rounds to nearest even; then one correction step."""
        if node.function == "round":
            nearest = self.apply(value, "nearest", DType.INT32)
            return self._pending(nearest)
        value = self._pending(self.apply(value, "scaled"))
        if node.function == "trunc":
            return self._truncate(value, place)
        op, fix = ("greater", "subtract") if node.function == "floor" else ("less", "add")
        return self._pending(self._step_back(value, place, op, fix, node.function))

    def _step_back(self, value: Pending, place: Place, op: str, fix: str, wanted: str) -> Tile:
        """The nearest whole number, and one step back where it went too far."""
        nearest = self.tile("nearest", place, DType.INT32)
        self.emit(place.level, Copy(dst=nearest, src=value.tile))
        off = self.tile("off_by_one", place)
        self._both(place, dst=off, first=nearest, second=value.tile, op=op)
        dst = self.tile(wanted, place)
        self._both(place, dst=dst, first=nearest, second=off, op=fix)
        return dst

    def _both(self, place: Place, *, dst: Tile, first: Tile, second: Tile, op: str) -> None:
        self.emit(place.level, Combine(dst=dst, first=first, second=second, op=op))

    def _sine(self, node: Node, value: Pending, place: Place) -> Value:
        """Sin over any range: whole turns are taken off first, since its table ends at +-pi."""
        if node.function == "cos":
            quarter = Scalar(op="add", operand=self.number(_HALF_PI))
            value = Pending(self.apply(value, "angle"), (quarter,), value.kind, value.level)
        angle = self.apply(value, "angle")
        turns = self.tile("turns", place, DType.INT32)
        per_turn = Scalar(op="multiply", operand=self.number(1 / (4 * _HALF_PI)))
        self.emit(place.level, Scale(dst=turns, data=angle, scalars=(per_turn,)))
        reduced = self.tile("reduced_angle", place)
        full_turn = Scalar(op="multiply", operand=self.number(-4 * _HALF_PI))
        self.emit(
            place.level,
            ScaleCombine(dst=reduced, data=turns, scalar=full_turn, op="add", other=angle),
        )
        clipped = Pending(
            reduced,
            (
                Scalar(op="maximum", operand=self.number(-_PI_BELOW)),
                Scalar(op="minimum", operand=self.number(_PI_BELOW)),
            ),
            place.kind,
            place.level,
        )
        return self._pending(self._activate("sin", clipped, place))

    # -- reductions -------------------------------------------------------------------------------
    def _reduce(self, node: Node) -> Value:
        place = self.places[node.id]
        source = node.inputs[0]
        value = self.value(source)
        if isinstance(value, tuple):
            raise UnsupportedError(node.origin, "a reduction of a constant")
        if value.kind in (Kind.ROW, Kind.ONE) or place.kind is Kind.FULL:
            # Wide still: the reduced axes have one element at every shape set.
            return value
        result = self.tile(REDUCED_NAMES[node.function], place)
        if node.function == "add" and not self.is_packed and self._sum_on_the_way(value, result):
            return self._pending(result)
        data = self._raw(source)
        self.emit(place.level, Reduce(dst=result, op=node.function, data=data))
        return self._pending(result)

    def _sum_on_the_way(self, value: Pending, result: Tile) -> bool:
        """Let the activation that makes the tile also add up its rows."""
        steps = self.levels[result.level]
        if not value.scalars:
            for index in range(len(steps) - 1, -1, -1):
                step = steps[index]
                if isinstance(step, Activate) and step.dst == value.tile:
                    if step.sums is not None:
                        return False
                    steps[index] = replace(step, sums=result)
                    return True
            return False
        if value.kind is not Kind.FULL or not all(s.op in _AFFINE for s in value.scalars):
            return False
        scale, bias, data = self._linear(value)
        scratch = self.tile("scaled", Place(value.kind, value.level))
        self.emit(
            result.level,
            Activate(dst=scratch, function="copy", data=data, scale=scale, bias=bias, sums=result),
        )
        return True


_AFFINE = frozenset({"add", "multiply", "subtract"})
_HALF_PI = 1.5707963267948966
_PI_BELOW = 3.1415925
"""The largest float32 below pi."""


def _changes_nothing(scalar: Scalar, value: Pending) -> bool:
    """Whether it multiplies by 1."""
    is_one = not isinstance(scalar.operand, Tile) and all(n == 1.0 for n in scalar.operand)
    return scalar.op == "multiply" and is_one and value.tile.dtype.is_float
