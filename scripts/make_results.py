"""Writes docs/results/builtin-250.md from a run of the built-in author over the benchmark.

Law: the same runs give the same page. Make them with
`nki-agent bench run --model builtin --split full-250 --perf --optimize 24`, and once without
`--optimize` for the first draft.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nki_agent.base.errors import UsageError  # noqa: E402
from nki_agent.chip.spec import DEFAULT_TARGET, Target  # noqa: E402
from nki_agent.evals.results import read_results, require_comparable  # noqa: E402
from nki_agent.report.author import write_author  # noqa: E402

PAGE = ROOT / "docs" / "results" / "builtin-250.md"
SHOWN = ("l1-softmax-rows-2d", "l2-linear-bias-gelu-bf16", "l2-sdpa-causal-prefill-bf16")
"""One kernel each of rows, products and attention."""


def main() -> int:
    """Write the page; 2 where a run cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("run", type=Path, help="the run that is described")
    parser.add_argument("--before", type=Path, help="the same suite without a search")
    parser.add_argument("--target", type=Target, default=DEFAULT_TARGET, help="default: trn2")
    parser.add_argument("--out", type=Path, default=PAGE)
    arguments = parser.parse_args()
    command = "scripts/make_results.py RUN" + (" --before RUN" if arguments.before else "")
    try:
        run = read_results(arguments.run).at(arguments.target)
        before = arguments.before and read_results(arguments.before).at(arguments.target)
        if before is not None:
            require_comparable([run, before])
        text = write_author(run, before=before, shown=SHOWN, command=command)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(f"{arguments.out.name}: {len(run.attempts)} attempts of {arguments.run.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
