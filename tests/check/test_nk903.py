"""NK903: code that reaches for the interpreter, the tracer or the system."""

import pytest

from tests.check.checked import HEAD, check_body, check_file, check_module, codes


@pytest.mark.parametrize(
    "body",
    [
        "t = x.__dict__",
        "t = x.__class__.__subclasses__()",
        "t = kernel.__globals__",
        "t = (1).__class__.__mro__",
        "t = x._storage",
        "x._defined = True",
        "t = vars(x)",
        "t = globals()['np']",
        "exec('1')",
        "t = eval('1')",
        "t = open('/etc/passwd')",
        "t = __import__('os')",
        "t = getattr(x, '__dict__')",
        "setattr(nl, 'exp', 1)",
        "nisa.activation = x",
        "nki.simulate = x",
        "del np.allclose",
        "np.testing.assert_allclose = x",
        "t = np.load('a.npy')",
        "np.save('a.npy', x)",
        "t = __builtins__",
    ],
)
def test_trick_in_a_kernel_is_named(body: str) -> None:
    findings = [f for f in check_body(body) if f.severity == "error" and f.code != "NK103"]
    assert set(codes(findings)) == {"NK903"}


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)\n",
        "import sys\nf = sys._getframe\n",
        "import sys\nm = sys.modules\n",
        "from os import _exit\n_exit(0)\n",
        "import gc\nobjects = gc.get_objects()\n",
        "import importlib\nm = importlib.import_module('os')\n",
        "import ctypes\nctypes.string_at(0)\n",
        "import enum\nmodules = enum.sys.modules\n",
        "from dataclasses import sys\nmodules = sys.modules\n",
        "import numpy as np\nnp.lib.npyio.os.abort()\n",
        "import numpy as np\nnp.allclose = lambda *a: True\n",
        "import atexit\n@atexit.register\ndef f():\n    pass\n",
    ],
)
def test_trick_at_import_is_named(code: str) -> None:
    assert "NK903" in codes(check_module(code))


def test_trick_in_a_helper_is_named_there() -> None:
    source = "from helper import f\n" + HEAD + "    return f(x)\n"
    (finding,) = check_file(source, {"helper": "def f(x):\n    return x.__dict__\n"})
    assert (finding.code, finding.where[-1].file) == ("NK903", "helper.py")


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.environ['A'] = '1'\n",
        "import os\npath = os.path.join('a', 'b')\n",
        "import sys\nif sys.version_info > (3, 8):\n    pass\n",
        "class E:\n    a = 1\n    def f(self):\n        return self._x\n",
        "import numpy as np\nTABLE = np.arange(4).astype(np.float32)\n",
        "def open(x):\n    return x\nopen(1)\n",
    ],
)
def test_what_honest_files_have_is_no_trick(code: str) -> None:
    assert "NK903" not in codes(check_module(code))


@pytest.mark.parametrize("body", ["t = getattr(nl, 'exp')", "t = x.__class__.__name__", "t = x.T"])
def test_what_honest_kernels_have_is_no_trick(body: str) -> None:
    assert "NK903" not in codes(check_body(body))


def test_private_helper_of_the_kernels_own_files_is_no_trick() -> None:
    source = "import helper\n" + HEAD + "    return helper._f(x)\n"
    assert check_file(source, {"helper": "def _f(x):\n    return x\n"}) == []


def test_trick_in_code_that_nothing_runs_is_not_judged() -> None:
    source = HEAD + "    return x\n\n\ndef inputs():\n    return open('data').read()\n"
    assert check_file(source) == []
