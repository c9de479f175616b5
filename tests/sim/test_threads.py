"""One BLAS thread in a process of its own, without a package for it."""

import subprocess
import sys

SCRIPT = """
import ctypes, os
from nki_agent.sim import threads
for name in threads._VARIABLES:
    os.environ.pop(name, None)
told = threads.use_one_thread()
import numpy as np
np.ones((300, 300), np.float32) @ np.ones((300, 300), np.float32)
counts = []
for path in threads._find_libraries():
    library = ctypes.CDLL(str(path))
    for name in threads._SETTERS:
        getter = getattr(library, name.replace("_set_", "_get_"), None)
        if getter is not None:
            counts.append(getter())
print(told, counts, os.environ["OPENBLAS_NUM_THREADS"])
"""


def test_the_loaded_library_runs_on_one_thread() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    told, _, rest = run.stdout.strip().partition(" ")
    assert told == "True"
    assert set(rest.replace("[", "").replace("]", "").replace(",", "").split()) == {"1"}
