"""The trace file holds what Perfetto needs and nothing that a kernel could smuggle in."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.diagnostic import Frame
from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.timeline import schedule
from nki_agent.program.records import Program
from tests.cost.kernels import EXP, MATMUL, trace


def write(program: Program, folder: Path) -> Any:
    path = folder / "timeline.json"
    timeline = schedule(program, load_chip(Target.TRN2))
    write_trace(timeline, program, path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_instruction_is_a_slice_on_a_named_track(tmp_path: Path) -> None:
    program = trace(MATMUL, {"a": (512, 512), "b": (512, 1024)})
    events = write(program, tmp_path)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert len(slices) == len(program.bodies[0])
    assert {e["tid"] for e in slices} == set(names)
    assert {"tensor", "scalar", "DMA into SBUF 1", "DMA out of SBUF 1"} <= set(names.values())
    assert len(set(names.values())) == len(names)


def test_slices_of_a_track_do_not_overlap(tmp_path: Path) -> None:
    events = write(trace(MATMUL, {"a": (512, 512), "b": (512, 1024)}), tmp_path)["traceEvents"]
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], round(event["ts"] + event["dur"], 3)))
    for spans in tracks.values():
        spans.sort()
        ends = [end for _, end in spans]
        begins = [begin for begin, _ in spans]
        assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


def test_slices_say_what_and_where(tmp_path: Path) -> None:
    events = write(trace(EXP, {"x": (128, 2048)}), tmp_path)["traceEvents"]
    load, exp, _ = (e for e in events if e["ph"] == "X")
    assert load["name"] == "dma_copy"
    assert load["args"]["bytes"] == 128 * 2048 * 4
    assert load["args"]["src"] == "float32 [128, 2048] hbm"
    assert load["args"]["source"].startswith("kernel.py:")
    assert load["args"]["issued_us"] < load["ts"]
    assert exp["args"]["data_ns"] == 2048 / 1.2 or abs(exp["args"]["data_ns"] - 1706.7) < 0.1


def test_transfers_that_overlap_have_their_own_tracks(tmp_path: Path) -> None:
    source = """(x):
    out = hbm(x.shape)
    for half in range(2):
        tile = sbuf((8, 2048))
        rows = slice(half * 8, half * 8 + 8)
        nisa.dma_copy(dst=tile, src=x[rows, :])
        nisa.dma_copy(dst=out[rows, :], src=tile)
    wide = sbuf((64, 16))
    nisa.dma_copy(dst=wide, src=x[16:80, 0:16])
    nisa.dma_copy(dst=out[16:80, 0:16], src=wide)
    return out
"""
    events = write(trace(source, {"x": (80, 2048)}), tmp_path)["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert "DMA into SBUF 2" in names


def test_text_of_a_program_is_cleaned(tmp_path: Path) -> None:
    program = trace(EXP, {"x": (128, 128)})
    nasty = msgspec.structs.replace(
        program,
        kernel="kernel\x1b[31m" + "x" * 1000,
        sites=tuple(Frame("evil\x1b]0;\n.py", 1) for _ in program.sites),
    )
    text = json.dumps(write(nasty, tmp_path), ensure_ascii=False)
    assert "\\u001b" not in text
    assert "x" * 500 not in text
