"""One computation has one graph, however it is written."""

from __future__ import annotations

import pytest

from nki_agent.base.errors import TaskError
from nki_agent.corpus.canonical import canonical_graph, distance
from nki_agent.corpus.nodes import GraphError
from tests.corpus.tasks import HEAD, declared, given, with_weights

LINEAR = "return F.linear(x, weight, bias)"

SAME = {
    "silu": (given("return x * torch.sigmoid(x)"), given("return F.silu(x)")),
    "statements in another order": (
        given("a = torch.exp(x)\nb = torch.tanh(y)\nreturn a * b"),
        given("b = torch.tanh(y)\na = torch.exp(x)\nreturn a * b"),
    ),
    "operands in another order": (given("return x * x + y"), given("return y + x * x")),
    "sums in another grouping": (given("return (x + y) + 1"), given("return x + (y + 1)")),
    "renamed inputs": (given("return x.exp() - y"), given("return y.exp() - x")),
    "linear": (with_weights(LINEAR), with_weights("return x @ weight.t() + bias")),
    "linear by einsum": (
        with_weights(LINEAR),
        with_weights('return torch.einsum("ij,kj->ik", x, weight) + bias'),
    ),
    "transposed twice": (given("return x.t().t().exp()"), given("return x.exp()")),
    "transposed around an elementwise step": (
        given("return x.t().contiguous().exp().t().contiguous()"),
        given("return x.exp()"),
    ),
    "reshaped and back": (
        given("return x.reshape(-1).exp().reshape(6, 10)"),
        given("return x.exp()"),
    ),
    "copied": (given("return x.clone().contiguous().exp()"), given("return x.exp()")),
    "another rank": (
        given("return torch.softmax(x, -1)"),
        given("return torch.softmax(x, -1)", shapes="(2, 3, 10)"),
    ),
    "other sizes": (
        given("return torch.softmax(x, -1)"),
        given("return torch.softmax(x, -1)", shapes="(64, 33)"),
    ),
    "another dtype": (
        declared("return torch.softmax(x, -1)"),
        declared("return torch.softmax(x.float(), -1).to(x.dtype)", dtype="bfloat16"),
    ),
    "other constants": (given("return x * 3.5 + 0.25"), given("return x * 7.0 + 0.1")),
    "softmax in steps": (
        given("return torch.softmax(x, -1)"),
        given("e = (x - x.max(-1, keepdim=True).values).exp()\nreturn e / e.sum(-1, keepdim=True)"),
    ),
    "layer norm in steps": (
        given("return F.layer_norm(x, (10,))"),
        given(
            "d = x - x.mean(-1, keepdim=True)\n"
            "return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-5)"
        ),
    ),
    "divided by a root": (
        given("return x / torch.sqrt(y)"),
        given("return torch.rsqrt(y) * x"),
    ),
    "attention in steps": (
        given("return F.scaled_dot_product_attention(x, x, y)", shapes="(2, 6, 10)"),
        given("return torch.softmax(x @ x.transpose(1, 2) / 3.2, -1) @ y", shapes="(2, 6, 10)"),
    ),
    "written in place": (
        given("z = x.clone()\nz += y\nz.mul_(2)\nreturn z"),
        given("return (x + y) * 2"),
    ),
    "the reciprocal of a reciprocal": (given("return 1 / (1 / x) + y"), given("return x + y")),
    "a masked fill": (
        given("return x.masked_fill(y > 0, 3.0)"),
        given("return torch.where(y > 0, 4.0, x)"),
    ),
    "a step that nobody reads": (given("z = x.exp()\nreturn x.tanh()"), given("return x.tanh()")),
    "another form of task file": (given("return F.silu(x)"), declared("return F.silu(x)")),
}
DIFFERENT = {
    "log softmax": (given("return torch.softmax(x, -1)"), given("return torch.log_softmax(x, -1)")),
    "another axis": (given("return torch.softmax(x, -1)"), given("return torch.softmax(x, 0)")),
    "a difference the other way": (
        given("return x.exp() - y.tanh()"),
        given("return y.tanh() - x.exp()"),
    ),
    "a residual from another place": (
        given("h = x.exp()\nreturn h.tanh() + x"),
        given("h = x.exp()\nreturn h.tanh() + h"),
    ),
    "one input twice": (given("return x * x"), given("return x * y")),
    "another exponent": (given("return x ** 2"), given("return x ** 3")),
    "another kind of number": (given("return x * 3.5"), given("return x * -1")),
    "an operand transposed": (given("return x @ x.t()"), given("return x.t() @ x")),
    "the other half": (
        given("return x[:, :5].exp()"),
        given("return x[:, 5:].exp()"),
    ),
    "halves or pairs": (
        given("return x[:, :5] * x[:, 5:]"),
        given("return x[:, ::2] * x[:, 1::2]"),
    ),
    "a mask's other side": (
        given("return x.masked_fill(y > 0, 3.0)"),
        given("return x.masked_fill(y <= 0, 3.0)"),
    ),
    "a gain of rows or of columns": (
        given("return x * y[0]"),
        given("return x * y[:, :1]"),
    ),
    "a running sum of the other axis": (given("return x.cumsum(0)"), given("return x.cumsum(1)")),
    "stored transposed": (given("return x.t().contiguous()"), given("return x.clone()")),
    "a part of the axis": (
        given("return x.sum(-1) * y[:, 0]"),
        given("return x.view(6, 2, 5).sum(-1) * y[:, :1]"),
    ),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_one_computation_written_twice_has_one_graph(pair: tuple[str, str]) -> None:
    left, right = (canonical_graph(source) for source in pair)
    assert left.text == right.text
    assert left.hash == right.hash


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_two_computations_have_two_graphs(pair: tuple[str, str]) -> None:
    left, right = (canonical_graph(source) for source in pair)
    assert left.text != right.text
    assert left.hash != right.hash


def test_typed_hash_tells_dtypes_apart() -> None:
    left, right = (
        canonical_graph(declared("return x.exp()", dtype=d)) for d in ("float32", "bfloat16")
    )
    assert left.hash == right.hash
    assert left.typed != right.typed


def test_typed_hash_tells_regimes_of_sizes_apart_and_not_sizes() -> None:
    near, same, far = (
        canonical_graph(declared("return x.exp()", perf=perf)) for perf in (2048, 1024, 16384)
    )
    assert near.typed == same.typed != far.typed


def test_bare_hash_sees_through_a_thin_wrapper() -> None:
    plain = canonical_graph(given("return torch.softmax(x, -1)"))
    wrapped = canonical_graph(given("return torch.softmax(x.float() * 0.3, -1).half() * 7"))
    assert plain.hash != wrapped.hash
    assert plain.bare == wrapped.bare


def test_bare_hash_of_another_computation_stays_another() -> None:
    plain = canonical_graph(given("return torch.softmax(x, -1)"))
    other = canonical_graph(given("return torch.softmax(x, -1) * y"))
    assert plain.bare != other.bare


def test_numpy_reference_has_the_graph_of_its_pytorch_twin() -> None:
    numpy = (
        "import numpy as np\n\n\ndef reference(x, w):\n"
        "    s = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5)\n"
        "    return np.matmul(x / s, w)\n\n\n"
        "def inputs():\n    return [np.ones((6, 10), np.float32), np.ones((10, 4), np.float32)]\n"
    )
    torch = (
        f"{HEAD}def reference(x, w):\n"
        "    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)) @ w\n\n\n"
        "def inputs():\n    return [torch.randn(6, 10), torch.randn(10, 4)]\n"
    )
    assert canonical_graph(numpy).text == canonical_graph(torch).text


def test_module_with_large_weights_is_followed_without_memory() -> None:
    source = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.linear = nn.Linear(n, n)\n\n"
        "    def forward(self, x):\n        return self.linear(x)\n\n\n"
        "def get_inputs():\n    return [torch.randn(1 << 20, 1 << 20)]\n\n\n"
        "def get_init_inputs():\n    return [1 << 20]\n"
    )
    assert canonical_graph(source).hash == canonical_graph(with_weights(LINEAR)).hash


def test_reference_that_asks_for_values_is_refused_by_name() -> None:
    with pytest.raises(TaskError):
        canonical_graph(given("return x if x.sum() > 0 else -x"))


def test_reference_that_draws_is_refused() -> None:
    with pytest.raises(GraphError, match="chance"):
        canonical_graph(given("return x * torch.rand_like(x)"))


def test_distance_grows_with_what_is_not_shared() -> None:
    base, near, far = (
        canonical_graph(given(body))
        for body in (
            "return torch.softmax(x, -1) * y",
            "return torch.softmax(x, -1) * y.tanh()",
            "return x.cumsum(0)",
        )
    )
    assert distance(base, [base]) == 0
    assert 0 < distance(near, [base]) < distance(far, [base]) == 1
    assert distance(base, []) == 1
