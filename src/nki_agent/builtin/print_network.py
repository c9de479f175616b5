"""Prints the sorting of whole rows: a network of exchanges, those of a step in four instructions.

Law: rows are lists of a power of two elements, and nothing depends on the order in which they come.
The two of a pair lie in different memories, as the Vector Engine reads one operand of SBUF and one
of PSUM in half the time of two of SBUF.
Where places are wanted, sorted values are looked for in the rows, eight at a time.
"""

from __future__ import annotations

from nki_agent.builtin.plan import RankPlan
from nki_agent.builtin.print_picks import Names, run_of_rows
from nki_agent.builtin.text import Source

SORT = '''def runs(tile, run, start, step, count):
    """`count` elements of each run of `run`, from `start` on in steps."""
    rows, total = tile.shape
    return tile.ap(pattern=[[total, rows], [run, total // run], [step, count]], offset=start)


def exchange(low, high, new_low, new_high, ops):
    """Of each pair, the first of ops chooses the one that comes first, and the second the other."""
    front, back = ops
    nisa.tensor_tensor(dst=new_low, data1=low, data2=high, op=front)
    nisa.tensor_tensor(dst=new_high, data1=low, data2=high, op=back)


def sort_lists(lows, highs, tile, levels, ops):
    """Sorts the lists of 2 ** levels elements in each partition into tile.

    Elements of lows and highs at one place make a pair; so they do after each step.
    """
    for level in range(1, levels + 1):
        for step in range(level):
            half = 2 ** (level - step - 1)
            if half == 1 and level == levels:
                exchange(lows, highs, tile[:, 0::2], tile[:, 1::2], ops)
                continue
            # Each half of a span becomes one of pairs; at a level's end two spans become one.
            run = half if half > 1 else 2**level
            count = run // 2
            pairs = [
                nl.ndarray(lows.shape, dtype=lows.dtype, buffer=lows.buffer),
                nl.ndarray(highs.shape, dtype=highs.dtype, buffer=highs.buffer),
            ]
            for part in range(2):
                low = runs(lows, run, part * count, 1, count)
                high = runs(highs, run, part * count, 1, count)
                new_low = runs(pairs[part], run, 0, 1, count)
                new_high = runs(pairs[part], run, count, 1, count)
                if half == 1:
                    new_low = runs(pairs[part], run, 0, 2, count)
                    new_high = runs(pairs[part], run, 1, 2, count)
                elif step == 0:
                    # Two sorted lists: the second is read from its end on.
                    high = runs(highs, run, run - 1 - part * count, -1, count)
                    new_high = runs(pairs[1 - part], run, run - 1, -1, count)
                exchange(low, high, new_low, new_high, ops)
            lows, highs = pairs
'''


FIND = '''def find_places(places, values, data):
    """Writes where in each row of data [P, rows, N] its sorted values are; data is overwritten."""
    rows, count = places.shape[1:]
    for k0 in range(0, count, 8):
        for row in range(rows):
            best, found = values[:, row, k0 : k0 + 8], places[:, row, k0 : k0 + 8]
            if k0 + 8 == count:
                nisa.nc_find_index8(dst=found, data=data[:, row, :], vals=best)
            else:
                # What is found is cleared: equal values have places of their own.
                nisa.nc_match_replace8(
                    dst=data[:, row, :], data=data[:, row, :], vals=best, imm=LOWEST, dst_idx=found
                )
'''


def print_network(plan: RankPlan, source: str, text: Source, names: Names) -> None:
    """Rows as lists of a power of two, several in each partition."""
    add, block = text.add, text.block
    most = (max(plan.source.cols) - 1).bit_length()
    text.note("Lists are as long as the next power of two.")
    add("half, levels = 1, 1")
    with block(f"for _ in range({most - 1}):"), block("if 2 * half < num_cols:"):
        add("half, levels = 2 * half, levels + 1")
    add("rest = num_cols - half")
    ops = ["nl.minimum", "nl.maximum"]
    add(f"ops = ({', '.join(reversed(ops) if plan.is_descending else ops)})")
    with block(f"for start, rows, each in row_blocks(num_rows, {plan.rows_each}):"):
        names.tile("lows", "(rows, each * half)", "float32")
        add(f"nisa.dma_copy(dst=lows, src={_cols(source, '0', 'half')})")
        names.tile("others", "(rows, each, half)", "float32")
        with block("if rest < half:"):
            end = "-" if plan.is_descending else ""
            add(f'nisa.memset(dst=others, value=float("{end}inf"))')
        with block("if rest > 0:"):
            add(f"nisa.dma_copy(dst=others[:, :, :rest], src={_cols(source, 'half', 'rest')})")
        if plan.is_paired:
            text.note("Pairs are read twice as fast with one of them in PSUM.")
            names.tile("highs", "(rows, each * half)", "float32", "psum")
            add("nisa.activation(dst=highs, op=nl.copy, data=others)")
        else:
            add("highs = others.reshape((rows, each * half))")
        names.tile("tile", "(rows, each * 2 * half)", "float32")
        add("sort_lists(lows, highs, tile, levels, ops)")
        add("lists = tile.reshape((rows, each, 2 * half))")
        if plan.values is not None:
            values = names.view(plan.values, "num_rows", "num_cols")
            add(f"nisa.dma_copy(dst={_cols(values, '0', 'num_cols')}, src=lists[:, :, :num_cols])")
        if plan.places is not None:
            _find(plan, source, text, names)


def _find(plan: RankPlan, source: str, text: Source, names: Names) -> None:
    """Places of the sorted values in rows that are loaded anew."""
    assert plan.places is not None
    places = names.view(plan.places, "num_rows", "num_cols")
    names.tile("data", "(rows, each, num_cols)", "float32")
    text.add(f"nisa.dma_copy(dst=data, src={run_of_rows(source, 'num_cols')})")
    names.tile("places", "(rows, each, (num_cols + 7) // 8 * 8)", "uint32")
    text.add("find_places(places, lists, data)")
    target = run_of_rows(places, "num_cols")
    text.add(f"nisa.dma_copy(dst={target}, src=places[:, :, :num_cols])")


def _cols(tensor: str, first: str, count: str) -> str:
    """Some columns of rows that follow each other in one partition."""
    pattern = f"[[each * num_cols, rows], [num_cols, each], [1, {count}]]"
    offset = "start * num_cols" + (f" + {first}" if first != "0" else "")
    return f"{tensor}.ap(pattern={pattern}, offset={offset})"
