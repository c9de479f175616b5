"""Times the source check: `python benchmarks/source_check.py`.

Prints milliseconds for kernels of growing length, beside the limit for one of 100 lines.
"""

import time

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
"""
STEP = """\
    for start in range(0, x.shape[0], nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, x.shape[0] - start)
        tile = nl.ndarray((size, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=2.0)
        nisa.dma_copy(dst=out[start : start + size], src=tile)
"""
LIMIT_MS, LIMIT_LINES = 3.0, 100


def main() -> None:
    print(f"{'lines':>8}{'ms':>8}")
    for steps in (2, 15, 75):
        source = HEAD + STEP * steps + "    return out\n"
        times: list[float] = []
        findings: list[Diagnostic] = []
        for _ in range(20):
            start = time.perf_counter()
            findings = check_source({"kernel.py": source}, "kernel.py", target=Target.TRN2)
            times.append(time.perf_counter() - start)
        if findings:
            raise SystemExit(str(findings[0]))
        print(f"{source.count(chr(10)):>8}{min(times) * 1e3:>8.2f}")
    print(f"limit: {LIMIT_MS} ms at {LIMIT_LINES} lines")


if __name__ == "__main__":
    main()
