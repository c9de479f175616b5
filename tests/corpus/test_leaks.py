"""No task of a benchmark comes in, whatever it is dressed in."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.fingerprint import take_fingerprint
from nki_agent.corpus.known import read_folder
from nki_agent.corpus.leaks import Known, Leaks, list_leaks
from tests.corpus.tasks import HEAD, declared, given

SOURCE = declared("scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)\nreturn x * scale")
KERNELBENCH = (
    f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n\n\n"
    "def get_inputs():\n    return [torch.randn(16, 32)]\n\n\n"
    "def get_init_inputs():\n    return []\n"
)
NUMPY = (
    "import numpy as np\n\nM, K, N = 128, 256, 64\n\n\ndef forward(a, b):\n"
    "    return np.matmul(a, b)\n\n\ndef get_inputs():\n"
    "    return [np.ones((M, K), np.float32), np.ones((K, N), np.float32)]\n"
)


@pytest.fixture
def leaks() -> Leaks:
    known = Known(id="l1-rmsnorm-rows", source=SOURCE, print=take_fingerprint(SOURCE))
    return Leaks((known,))


@pytest.mark.parametrize(
    ("source", "how"),
    [
        (SOURCE, "the text of"),
        (SOURCE.replace("2048", "512"), "the graph of"),
        (SOURCE.replace("float32", "bfloat16"), "the graph of"),
        (
            given("d = torch.sqrt((x * x).sum(-1, keepdim=True) / 10 + 1e-5)\nreturn x / d"),
            "the graph of",
        ),
        (
            declared(
                "r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)\nreturn (x * r) * 0.7"
            ),
            "but for a number",
        ),
    ],
    ids=["text", "sizes", "dtype", "rewritten", "wrapped"],
)
def test_benchmark_task_in_disguise_is_found(leaks: Leaks, source: str, how: str) -> None:
    found = leaks.find(take_fingerprint(source))
    assert found is not None
    assert how in found
    assert list_leaks(leaks, [("c-x", take_fingerprint(source))])[0].startswith("c-x: ")


def test_code_with_a_step_more_is_found_by_its_parts_and_pieces() -> None:
    body = (
        "mean = x.mean(-1, keepdim=True)\nd = (x - mean) * torch.rsqrt(x.var(-1, keepdim=True))\n"
        "h = torch.tanh(d) * torch.sigmoid(x) + torch.sin(d)\n"
        "y = torch.softmax(h, dim=-1) + torch.cumsum(x, dim=0)\n"
    )
    source = declared(f"{body}return y")
    leaks = Leaks((Known(id="l3-x", source=source, print=take_fingerprint(source)),))
    found = take_fingerprint(declared(f"{body}return y.exp()"))
    assert "parts of its graph" in str(leaks.find(found))
    assert "pieces" in str(leaks.find(msgspec.structs.replace(found, graph=None)))


def test_benchmark_operator_inside_another_task_is_no_leak(leaks: Leaks) -> None:
    source = declared(
        "scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)\n"
        "h = torch.tanh(x * scale)\nreturn torch.softmax(h * torch.sigmoid(x), -1) + x"
    )
    assert leaks.find(take_fingerprint(source)) is None


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("as in l1-rmsnorm-rows, I will", "names"),
        ("The reference:\n" + SOURCE.replace("    ", "\t"), "quotes"),
        (
            "```python\n" + SOURCE.replace("scale", "factor").replace("1e-6", "1e-5") + "```",
            "pieces",
        ),
    ],
    ids=["id", "quote", "code"],
)
def test_text_that_gives_a_task_away_is_found(leaks: Leaks, text: str, how: str) -> None:
    assert any(how in line for line in leaks.find_in_text(text))


def test_text_about_something_else_gives_nothing_away(leaks: Leaks) -> None:
    text = "A softmax:\n```python\n" + declared("return torch.softmax(x, -1)") + "```"
    assert list(leaks.find_in_text(text)) == []


def test_folder_of_kernelbench_files_is_followed_and_what_cannot_be_is_named(
    tmp_path: Path,
) -> None:
    odd = KERNELBENCH.replace("torch.tanh(x)", "x if x.sum().item() > 0 else torch.tanh(x)")
    (tmp_path / "22_Tanh.py").write_text(KERNELBENCH, encoding="utf-8")
    (tmp_path / "1_Odd.py").write_text(odd, encoding="utf-8")
    told: list[str] = []
    known = read_folder(tmp_path, tell=told.append, allow_unsandboxed=True)
    wanted = take_fingerprint(declared("return x.tanh()"))
    assert Leaks(known).find(wanted) == "the graph of 22-tanh"
    assert [k.id for k in known if k.print.graph is None] == ["1-odd"]
    assert len(told) == 1
    assert told[0].startswith("1-odd: only its text is compared")


def test_folder_of_numpy_references_is_followed(tmp_path: Path) -> None:
    (tmp_path / "matmul_numpy.py").write_text(NUMPY, encoding="utf-8")
    known = read_folder(tmp_path, tell=lambda _: None, allow_unsandboxed=True)
    product = (
        f"{HEAD}def reference(a, b):\n    return a @ b\n\n\n"
        "def inputs():\n    return [torch.randn(4, 6), torch.randn(6, 8)]\n"
    )
    assert Leaks(known).find(take_fingerprint(product)) == "the graph of matmul"


def test_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    with pytest.raises(UsageError):
        read_folder(tmp_path, tell=lambda _: None)
