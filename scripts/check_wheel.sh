#!/usr/bin/env bash
# Builds the wheel, installs it alone in a fresh venv, and lets it judge one kernel: what `pip install .` gives a user.
# Law: core dependencies only (no PyTorch, no checkout on the path), every data file of the package is in the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOM=$(mktemp -d)
trap 'rm -rf "$ROOM"' EXIT
PIP=(-m pip --disable-pip-version-check -qq)

echo "wheel check: building"
.venv/bin/python "${PIP[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$ROOM/dist" .
WHEEL=$(ls "$ROOM"/dist/*.whl)

.venv/bin/python - "$WHEEL" <<'PY'
import sys
import zipfile
from pathlib import Path

packed = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = {p.relative_to("src").as_posix() for p in Path("src/nki_agent").rglob("*") if p.is_file()}
missing = sorted(p for p in wanted - packed if "__pycache__" not in p)
sys.exit(f"error: not in the wheel: {', '.join(missing)}" if missing else 0)
PY

echo "wheel check: installing with core dependencies only"
.venv/bin/python -m venv "$ROOM/venv"
# The lock as constraints: the versions that the tests ran with. Hashes are left out: they would ask for a lock of this subset.
grep -hoE '^[A-Za-z0-9._-]+==[^ ]+( ; .*[^\\ ])?' requirements/solve.lock >"$ROOM/constraints.txt"
"$ROOM/venv/bin/python" "${PIP[@]}" install --only-binary :all: -c "$ROOM/constraints.txt" "$WHEEL"
if "$ROOM/venv/bin/python" -c 'import torch' 2>/dev/null; then
    echo "error: the core package installs PyTorch" >&2
    exit 1
fi

echo "wheel check: nki-agent verify examples/kernels/softmax.py --task examples/softmax_numpy.py"
cp -r examples "$ROOM/examples"
cd "$ROOM"
# Verdicts must not depend on this checkout, and -P keeps the current folder off the path.
env -u PYTHONPATH PYTHONSAFEPATH=1 "$ROOM/venv/bin/nki-agent" verify examples/kernels/softmax.py --task examples/softmax_numpy.py
echo "wheel check: right"
