"""Prints a loop over time whose state stays in SBUF.

Law: the text fits any number of steps, sequences and features; the features that fill up the last
block of partitions are 0 in what is loaded, and no product takes them.
"""

from __future__ import annotations

from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import times
from nki_agent.builtin.resident_plan import ResidentPlan, StepProduct
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size, Tile

KEEP_PARTS = '''def keep_parts(w, features, rows, each):
    """Loads w [K, parts of features] as [rows, block of K, part, block of features and rows]."""
    parts = w.shape[1] // features
    kept = nl.ndarray((rows, each, parts, each * rows), dtype=w.dtype, buffer=nl.sbuf)
    if each * rows > features:
        nisa.memset(dst=kept, value=0.0)
    for k in range(each):
        size = min(rows, features - k * rows)
        block = w[k * rows : k * rows + size, :].reshape_dim(1, (parts, features))
        nisa.dma_copy(dst=kept[:size, k, :, :features], src=block)
    return kept
'''
KEEP_TURNED_PARTS = '''def keep_turned_parts(w, features, rows, each):
    """As `keep_parts`, of w [parts of features, K], which is turned on the Tensor Engine."""
    parts = w.shape[0] // features
    kept = nl.ndarray((rows, each, parts, each * rows), dtype=w.dtype, buffer=nl.sbuf)
    if each * rows > features:
        nisa.memset(dst=kept, value=0.0)
    for part in range(parts):
        for e in range(each):
            start = part * features + e * rows
            size = min(rows, features - e * rows)
            tile = nl.ndarray((size, features), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=w[start : start + size, :])
            for k in range(each):
                depth = min(rows, features - k * rows)
                turned = nl.ndarray((depth, size), dtype=w.dtype, buffer=nl.psum)
                nisa.nc_transpose(dst=turned, data=tile[:, k * rows : k * rows + depth])
                part_of_k = kept[:depth, k, part, e * rows : e * rows + size]
                nisa.tensor_copy(dst=part_of_k, src=turned)
    return kept
'''
MULTIPLY_PART = '''def multiply_part(x, kept, part, features):
    """x [rows, block of features, M] times one part of what `keep_parts` kept, in PSUM."""
    rows, each, cols = x.shape
    product = nl.ndarray((rows, each, cols), dtype=nl.float32, buffer=nl.psum)
    for e in range(each):
        for k in range(each):
            size = min(rows, features - k * rows)
            nisa.nc_matmul(
                dst=product[:, e, :],
                stationary=kept[:size, k, part, e * rows : (e + 1) * rows],
                moving=x[:size, k, :],
            )
    return product
'''
FEATURES_FIRST = '''def features_first(tile, features, rows, each):
    """Turns tile [M, parts of features] to [rows, part, block of features, M]."""
    num, width = tile.shape
    parts = width // features
    turned = nl.ndarray((rows, parts, each, num), dtype=tile.dtype, buffer=nl.sbuf)
    if each * rows > features:
        nisa.memset(dst=turned, value=0.0)
    for part in range(parts):
        for e in range(each):
            start = part * features + e * rows
            size = min(rows, features - e * rows)
            block = nl.ndarray((size, num), dtype=tile.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=block, data=tile[:, start : start + size])
            nisa.activation(dst=turned[:size, part, e, :], op=nl.copy, data=block)
    return turned
'''
LOAD_STEPS = '''def load_steps(src):
    """Loads rows [steps, M, features] of several steps, one under another."""
    tile = nl.ndarray((src.shape[0] * src.shape[1], src.shape[2]), dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src)
    return tile
'''
FEATURES_LAST = '''def features_last(tile, features):
    """Turns tile [rows, block of features, M] to [M, features]."""
    rows, each, num = tile.shape
    turned = nl.ndarray((num, features), dtype=tile.dtype, buffer=nl.sbuf)
    for e in range(each):
        size = min(rows, features - e * rows)
        block = nl.ndarray((num, size), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=block, data=tile[:size, e, :])
        nisa.activation(dst=turned[:, e * rows : e * rows + size], op=nl.copy, data=block)
    return turned
'''


def resident_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages of a plan call."""
    stages = [stage for stage in plan.stages if isinstance(stage, ResidentPlan)]
    if not stages:
        return []
    turned = {is_turned(product) for stage in stages for product in stage.products}
    keep = [KEEP_PARTS] * (False in turned) + [KEEP_TURNED_PARTS] * (True in turned)
    return [*keep, MULTIPLY_PART, FEATURES_FIRST, LOAD_STEPS, FEATURES_LAST]


def is_turned(product: StepProduct) -> bool:
    """Whether the depth of the weights runs along their columns."""
    return set(product.w.strides[1]) != {1}


class ResidentPrinter:
    """Prints one ResidentPlan into a function body."""

    def __init__(self, plan: ResidentPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.steps = StepPrinter(source, scope, row_level=0, cols="cols", is_packed=True)

    def print(self) -> None:
        """All steps."""
        self._sizes()
        self._columns()
        self._level(0)
        for number, product in enumerate(self.plan.products):
            self._weights(f"weights_{number + 1}", product)
        self.source.note("As many sequences at a time as one PSUM bank takes of each product.")
        self.source.add("most = min(PARTITIONS, BANK // each)")
        with self.source.block("for c0 in range(0, num_sequences, most):"):
            self.source.add("cols = min(most, num_sequences - c0)")
            for state in self.plan.states:
                self._initial(state.before, state.initial)
            self.source.note(
                "Inputs and results of as many steps as fill the partitions are turned together."
            )
            self.source.add("most_steps = max(1, PARTITIONS // cols)")
            self._groups()

    def _groups(self) -> None:
        """All steps, several at a time."""
        add, inputs = self.source.add, range(len(self.plan.inputs))
        add("made = []")
        if inputs:
            self.source.note("The turn in front of the first reads ahead for it.")
        first = "-most_steps" if inputs else "0"
        with self.source.block(f"for t0 in range({first}, num_steps, most_steps):"):
            if inputs:
                self._load()
                with self.source.block("if t0 < 0:"):
                    self._turn_loaded()
                    add("continue")
            add("count = min(most_steps, num_steps - t0)")
            for number in inputs:
                add(f"inputs_{number + 1} = ahead_{number + 1}")
            for result in self.plan.results:
                add(
                    f"{_all(result.tile)} = nl.ndarray((rows, each, count * cols),"
                    f" dtype=nl.{result.tile.dtype.value}, buffer=nl.sbuf)"
                )
            with self.source.block("for t in range(count):"):
                self._step()
                self._between()
            for result in self.plan.results:
                if result.access is not None:
                    rows = self._rows(result.access, "num_features", "t0", "count")
                    add(f"made.append(({rows}, {_all(result.tile)}))")
        self._store_made()

    def _load(self) -> None:
        """What the next steps read."""
        self.source.add("start = t0 + most_steps")
        with self.source.block("if start < num_steps:"):
            self.source.add("coming = min(most_steps, num_steps - start)")
            for number, group in enumerate(self.plan.inputs):
                parts = len(group.parts)
                width = times("num_features", str(parts)) if parts > 1 else "num_features"
                rows = self._rows(group.access, width, "start", "coming")
                self.source.add(f"loaded_{number + 1} = load_steps({rows})")

    def _turn_loaded(self) -> None:
        for number in range(1, len(self.plan.inputs) + 1):
            turned = f"features_first(loaded_{number}, num_features, rows, each)"
            self.source.add(f"ahead_{number} = {turned}")
            for part, column in self.plan.inputs[number - 1].added:
                own = f"ahead_{number}[:, {part}, :, :]"
                spread = f"{column.name}[:rows].broadcast(2, ahead_{number}.shape[3])"
                self.source.add(
                    f"nisa.tensor_tensor(dst={own}, data1={own}, data2={spread}, op=nl.add,"
                    " engine=nisa.engine.gpsimd)"
                )

    def _store_made(self) -> None:
        """The results of a group of steps."""
        with self.source.block("for part, tile in made:"):
            self.source.add("nisa.dma_copy(dst=part, src=features_last(tile, num_features))")

    def _between(self) -> None:
        """What is turned for the groups before and behind, in the middle of a group."""
        add = self.source.add
        with self.source.block("if t == min(1, count - 1):"):
            self.source.note("Turned while the Tensor Engine would wait for the end of this step.")
            self._store_made()
            add("made = []")
            if self.plan.inputs:
                with self.source.block("if start < num_steps:"):
                    self._turn_loaded()

    # -- before the loop --------------------------------------------------------------------------
    def _sizes(self) -> None:
        add, plan = self.source.add, self.plan
        for name, size in (
            ("num_steps", plan.steps),
            ("num_sequences", plan.sequences),
            ("num_features", plan.features),
        ):
            add(f"{name} = {self.scope.size(size)}")
        # Only this one is sure to be a size of its own: the others may be equal by chance.
        self.scope.names["num_features"] = plan.features
        self.source.note("Features lie on the partitions, in blocks of one height.")
        add("each = (num_features + PARTITIONS - 1) // PARTITIONS")
        add("rows = (num_features + each - 1) // each")

    def _columns(self) -> None:
        for column in self.plan.columns:
            name, dtype = column.tile.name, column.tile.dtype.value
            self.steps.take(column.tile)
            self.source.add(
                f"{name} = nl.ndarray((rows, each, 1), dtype=nl.{dtype}, buffer=nl.sbuf)"
            )
            with self.source.block("if each * rows > num_features:"):
                self.source.add(f"nisa.memset(dst={name}, value=0.0)")
            with self.source.block("for e in range(each):"):
                self.source.add("size = min(rows, num_features - e * rows)")
                offset = self._offset(column.access.offset, "e * rows")
                self.source.add(
                    f"nisa.dma_copy(dst={name}[:size, e, :],"
                    f" src={column.access.tensor}.ap(pattern=[[1, size], [1, 1]]{offset}))"
                )

    def _weights(self, name: str, product: StepProduct) -> None:
        w = product.w
        turned = is_turned(product)
        outer, inner = (1, 0) if turned else (0, 1)
        sizes = {0: self.plan.features, 1: product.columns}
        texts = [self.scope.size(sizes[outer]), self.scope.size(sizes[inner])]
        stride = self.scope.pace(w.strides[outer], sizes[outer], sizes[inner])
        shape = self.scope.shapes[w.tensor]
        whole = len(shape) == len(texts) and not any(w.offset)
        view = w.tensor
        if not (whole and shape[0] == sizes[outer] and shape[1] == sizes[inner]):
            view += (
                f".ap(pattern=[[{stride}, {texts[0]}], [1, {texts[1]}]]{self._offset(w.offset)})"
            )
        self.source.note(f"All of {w.tensor} stays in SBUF.")
        keep = "keep_turned_parts" if turned else "keep_parts"
        self.source.add(f"{name} = {keep}({view}, num_features, rows, each)")

    def _offset(self, offset: Size, *terms: str) -> str:
        texts = [self.scope.size(offset)] if any(offset) else []
        found = " + ".join([*texts, *terms])
        return f", offset={found}" if found else ""

    # -- for a block of sequences -----------------------------------------------------------------
    def _initial(self, before: Tile, access: Access) -> None:
        name, dtype = before.name, before.dtype.value
        self.steps.take(before)
        self.source.add(
            f"{name}_rows = nl.ndarray((cols, num_features), dtype=nl.{dtype}, buffer=nl.sbuf)"
        )
        stride = self.scope.pace(access.strides[0], self.plan.sequences, self.plan.features)
        offset = self._offset(access.offset, times("c0", stride))
        rows = f"{access.tensor}.ap(pattern=[[{stride}, cols], [1, num_features]]{offset})"
        self.source.add(f"nisa.dma_copy(dst={name}_rows, src={rows})")
        self.source.add(
            f"{name} = features_first({name}_rows, num_features, rows, each)[:, 0, :, :]"
        )

    def _rows(self, access: Access, width: str, start: str, count: str) -> str:
        """Rows of `count` steps from `start` on and `cols` sequences in HBM."""
        plan = self.plan
        step = self._stride(access.strides[0], plan.steps, plan.sequences, plan.features)
        row = self._stride(access.strides[1], plan.sequences, plan.steps, plan.features)
        terms = [times(at, stride) for at, stride in ((start, step), ("c0", row)) if stride != "0"]
        return (
            f"{access.tensor}.ap(pattern=[[{step}, {count}], [{row}, cols], [1, {width}]]"
            f"{self._offset(access.offset, *terms)})"
        )

    def _stride(self, stride: Size, count: Size, other: Size, features: Size) -> str:
        if not any(stride):
            return "0"
        span = tuple(a * b for a, b in zip(other, features, strict=True))
        return self.scope.pace(stride, count, span)

    # -- one step ---------------------------------------------------------------------------------
    def _step(self) -> None:
        self.source.add("first, end = t * cols, (t + 1) * cols")
        for number, group in enumerate(self.plan.inputs):
            for part, tile in enumerate(group.parts):
                self.steps.take(tile)
                self.source.add(f"{tile.name} = inputs_{number + 1}[:, {part}, :, first:end]")
        for result in self.plan.results:
            self.steps.take(result.tile)
            self.source.add(f"{result.tile.name} = {_all(result.tile)}[:, :, first:end]")
        for level in range(1, len(self.plan.levels)):
            for number, product in enumerate(self.plan.products):
                if product.level == level:
                    self._multiply(f"weights_{number + 1}", product)
            self._level(level)
        for state in self.plan.states:
            self.source.add(f"{state.before.name} = {state.after.name}")

    def _multiply(self, weights: str, product: StepProduct) -> None:
        for part, tile in product.parts:
            self.steps.take(tile)
            self.source.add(
                f"{tile.name} = multiply_part({product.x.name}, {weights}, {part}, num_features)"
            )

    def _level(self, level: int) -> None:
        self.steps.row_level = level
        for step in self.plan.levels[level]:
            self.steps.print(step, level)


def _all(tile: Tile) -> str:
    return f"all_{tile.name}"
