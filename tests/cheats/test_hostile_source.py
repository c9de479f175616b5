"""Source text that is hostile as text: too deep, too long, not Unicode, not what it seems.

Law: any text gives a verdict, with the checker and without it, and never an exception.
"""

from __future__ import annotations

import msgspec
import pytest

from nki_agent.task.task import Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.cheats.test_cheats import ROOT_SEED, VERDICT_BYTES_MAX, find_nothing
from tests.kernels import HEAD, SOFTMAX, body


def stairs(line: str, depth: int, end: str) -> str:
    """Blocks inside of blocks."""
    steps = "".join(" " * i + line.format(i) + "\n" for i in range(depth))
    return steps + " " * depth + end + "\n"


SOURCES = {
    "nothing": "",
    "a null character": "x = 1\0" + SOFTMAX,
    "half a surrogate pair in a text": 'x = "\ud800"\n' + SOFTMAX,
    "half a surrogate pair in a name": body("\ud800 = 1"),
    "a byte order mark twice": "\ufeff\ufeff" + SOFTMAX,
    "parentheses too deep": "x = " + "(" * 100_000 + ")" * 100_000,
    "parentheses as deep as may be": "x = " + "(" * 90 + "1" + ")" * 90,
    "lists in lists": "x = " + "[" * 5_000 + "]" * 5_000,
    "a million signs": "x = " + "-" * 1_000_000 + "1",
    "signs just short of too many": "x = " + "-" * 900 + "1\n" + SOFTMAX,
    "a long sum": "x = " + " + ".join(["1"] * 100_000),
    "a sum just short of too long": body("y = " + " + ".join(["2"] * 900)),
    "a long attribute": body("y = nl" + ".b" * 5_000),
    "an attribute just short of too long": body("y = nl" + ".b" * 900),
    "a long chain of calls": body("y = nl.add" + "()" * 900),
    "a chain of calls that is too long": "x = f" + "()" * 3_000,
    "lambdas in lambdas": "x = " + "lambda: " * 3_000 + "0",
    "blocks too deep": stairs("if 1:", 2_000, "pass"),
    "blocks as deep as may be": stairs("if 1:", 98, "pass"),
    "functions in functions": stairs("def f{}():", 98, "pass"),
    "classes in classes": stairs("class C{}:", 98, "pass"),
    "a long elif": body("if x: pass\n" + "".join(f"elif {i}: pass\n" for i in range(3_000))),
    "a number of a hundred thousand digits": "x = " + "9" * 100_000,
    "a hexadecimal number of any size": body(f"nl.zeros((0x{'f' * 10_000}, 1), nl.float32)"),
    "a power of a power": body("nl.zeros((10 ** 10 ** 10, 1), nl.float32)"),
    "a text of any size": body('y = "a" * 10 ** 12'),
    "one line of five megabytes": "#" + "x" * 5_000_000,
    "two million lines": "\n" * 2_000_000,
    "many statements": "x = 1\n" * 50_000,
    "a name of a megabyte": f"import nki\n\n\n@nki.jit\ndef {'k' * 1_000_000}(x):\n    return x\n",
    "an attribute of a megabyte": body(f"nl.{'a' * 1_000_000}(x)"),
    "thousands of kernels": "import nki\n"
    + "".join(f"@nki.jit\ndef k{i}(x):\n    return x\n" for i in range(3_000)),
    "an import of itself": "import kernel\nfrom kernel import *\n" + SOFTMAX + "\nkernel = None\n",
    "relative imports": "from . import x\nfrom ... import *\n" + SOFTMAX,
    "another encoding": "# -*- coding: rot13 -*-\nvzcbeg bf\nbf._rkvg(0)\n",
    "text that runs backwards": HEAD + "# \u202e }\n" + "x = '\u2066'\n",
    "a kernel that is a class": "import nki\n\n\n@nki.jit\nclass kernel:\n    pass\n",
    "a kernel that is a lambda": "import nki\n\nkernel = nki.jit(lambda x: x)\n",
    "names that stand for one another": body("a.b.c()\nA.q()\nreturn x")
    + "a = b\nb = a\nclass A(B): pass\nclass B(A): pass\n",
    "a long chain of names": "import nki.language as a0\n"
    + "".join(f"a{i + 1} = a{i}\n" for i in range(5_000))
    + body("a5000.foo(x)"),
    "three thousand arguments": body(
        "nisa.dma_copy(" + ", ".join(f"a{i}=1" for i in range(3_000)) + ")"
    ),
    "code in a default": "import nki\n\n\n@nki.jit\ndef kernel(x=__import__('os')._exit(0)):\n"
    "    return x\n",
    "code in an annotation": "import nki\n\n\n@nki.jit\ndef kernel(x: exit(0)):\n    return x\n",
    "a long comparison": body("y = " + " < ".join(["2"] * 5_000)),
    "assignments without end": body(" = ".join(["y"] * 5_000) + " = x"),
    "thousands of errors": body("".join(f"nl.no{i}(x)\n" for i in range(3_000))),
}


NOT_UNICODE = [name for name in SOURCES if "surrogate" in name]
MAY_BE_RIGHT = "signs just short of too many"


def check_ends(judge: Judge, task: Task, name: str) -> None:
    """The text has a verdict with a reason, and the next kernel is right."""
    verdict = judge.judge(Kernel.from_text(SOURCES[name]), task, root_seed=ROOT_SEED)
    assert verdict.right == (name == MAY_BE_RIGHT)
    assert verdict.diagnostics
    assert len(msgspec.json.encode(verdict)) < VERDICT_BYTES_MAX
    assert judge.judge(Kernel.from_text(SOFTMAX), task, root_seed=ROOT_SEED).right


@pytest.mark.parametrize("name", SOURCES)
def test_text_gives_a_verdict(judge: Judge, softmax: Task, name: str) -> None:
    check_ends(judge, softmax, name)


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in NOT_UNICODE])
def test_text_that_the_checker_misses_gives_a_verdict(
    judge: Judge, softmax: Task, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "check_source", find_nothing)
    check_ends(judge, softmax, name)
