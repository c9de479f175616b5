"""Small operators for the built-in author, as the text of task files."""

from __future__ import annotations

from dataclasses import dataclass

Shapes = tuple[tuple[int, ...], ...]
NAMES = ("x", "y", "z", "w")
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass(frozen=True)
class Operator:
    """`body` is an expression of x, y, z, w; `layer` makes `self.layer` of a module."""

    name: str
    body: str
    shapes: Shapes
    layer: str = ""

    def source(self, dtype: str, shapes: Shapes | None = None) -> str:
        """The task file."""
        shapes = shapes or self.shapes
        names = ", ".join(NAMES[: len(shapes)])
        drawn = ", ".join(f"torch.randn{shape!r}" for shape in shapes)
        if not self.layer:
            drawn = ", ".join(f"torch.randn{shape!r}.to(torch.{dtype})" for shape in shapes)
            return (
                f"{HEAD}\ndef reference({names}):\n    return {self.body}\n\n\n"
                f"def inputs():\n    return [{drawn}]\n"
            )
        return (
            f"{HEAD}DTYPE = '{dtype}'\n\n\nclass Model(nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n"
            f"        self.layer = {self.layer}\n\n"
            f"    def forward(self, {names}):\n        return {self.body}\n\n\n"
            f"def get_inputs():\n    return [{drawn}]\n"
        )


ELEMENTWISE = (
    Operator("rank 1", "torch.relu(x)", ((1000,),)),
    Operator("rank 2", "x + y", ((300, 77), (300, 77))),
    Operator("rank 3 chain", "torch.sigmoid(x * 2 + 1) * y - 3", ((5, 33, 70), (5, 33, 70))),
    Operator("rank 4", "F.gelu(x)", ((2, 3, 40, 50),)),
    Operator("under one partition", "x * 2", ((7,),)),
    Operator("bias", "F.silu(x + y)", ((200, 96), (96,))),
    Operator("channel scale", "x * y", ((4, 64, 10, 11), (64, 1, 1))),
    Operator("number of the file", "x * torch.log(torch.tensor(5.0))", ((130, 50),)),
    Operator("position", "x + y", ((4, 50, 96), (50, 96))),
    Operator("outer product", "x[:, None] * y[None, :]", ((130,), (50,))),
    Operator(
        "three broadcasts", "F.silu(x + y) * w + z[:, None]", ((900, 17), (17,), (900,), (1,))
    ),
    Operator("where", "torch.where(x > 0, x, 0.1 * y)", ((130, 50), (130, 50))),
    Operator("masked fill", "x.masked_fill(y > 0.5, -1.0)", ((130, 50), (130, 50))),
    Operator("clamp", "x.clamp(-0.5, 0.7) * 2", ((130, 50),)),
    Operator("quotient", "x / (y.abs() + 1)", ((130, 50), (130, 50))),
    Operator("elu", "F.elu(x)", ((130, 50),)),
    Operator("log1p", "torch.log1p(x.abs())", ((130, 50),)),
    Operator("hardswish", "F.hardswish(x)", ((130, 50),)),
    Operator("softplus", "F.softplus(x)", ((130, 50),)),
    Operator("gelu tanh", "F.gelu(x, approximate='tanh')", ((130, 50),)),
    Operator("swiglu halves", "F.silu(x[:, :50]) * x[:, 50:]", ((130, 100),)),
    Operator("sine", "torch.sin(x) + torch.cos(y)", ((130, 50), (130, 50))),
    Operator("powers", "x**3 + x.abs() ** 0.5", ((130, 50),)),
    Operator("leaky relu", "F.leaky_relu(x, 0.2)", ((7, 1300),)),
    Operator("few long rows", "torch.tanh(x) + 1", ((3, 100_000),)),
)
ROWS = (
    Operator("softmax", "F.softmax(x, -1)", ((300, 1000),)),
    Operator("softmax in phases", "F.softmax(x, -1)", ((520, 300),)),
    Operator("softmax rank 4", "F.softmax(x, -1)", ((2, 3, 45, 130),)),
    Operator("softmax of short rows", "F.softmax(x, -1)", ((3001, 40),)),
    Operator("log softmax", "F.log_softmax(x, -1)", ((130, 70),)),
    Operator("rms norm", "self.layer(x)", ((257, 333),), "nn.RMSNorm(333, eps=1e-6)"),
    Operator("layer norm", "self.layer(x)", ((3, 100, 500),), "nn.LayerNorm(500)"),
    Operator("layer norm and skip", "self.layer(x) + x", ((700, 300),), "nn.LayerNorm(300)"),
    Operator("layer norm of short rows", "self.layer(x)", ((5, 700, 48),), "nn.LayerNorm(48)"),
    Operator("batch norm", "torch.relu(self.layer(x))", ((130, 70),), "nn.BatchNorm1d(70)"),
    Operator(
        "batch norm of images", "self.layer(x)", ((2, 5, 9, 11),), "nn.BatchNorm2d(5, affine=False)"
    ),
    Operator("sum", "x.sum(-1)", ((200, 300),)),
    Operator("mean, kept", "x.mean(-1, keepdim=True)", ((3, 70, 300),)),
    Operator("largest", "x.amax(-1)", ((130, 50),)),
    Operator("smallest", "x.min(-1).values", ((130, 50),)),
    Operator("variance", "x.var(-1)", ((600, 50),)),
    Operator("deviation", "x.std(-1, unbiased=False)", ((130, 50),)),
    Operator("normalize", "F.normalize(x, dim=-1)", ((130, 50),)),
    Operator("norm of differences", "torch.norm(x - y, dim=-1)", ((130, 50), (130, 50))),
    Operator("log-sum-exp", "torch.logsumexp(x, -1)", ((130, 50),)),
    Operator("two axes", "x.sum((-2, -1))", ((130, 10, 50),)),
    Operator("column sums", "x.sum(0)", ((200, 150),)),
    Operator("sums of wide columns", "x.sum(0) * 2", ((300, 2200),)),
    Operator(
        "grouped scales",
        "(x.view(100, 3, 50) * y).view(100, 150).to(torch.bfloat16) * z",
        ((100, 150), (100, 3, 1), (150,)),
    ),
    Operator("column maxima", "x.amax(0)", ((200, 150),)),
    Operator("middle sums", "x.mean(1)", ((3, 200, 150),)),
    Operator("sums of few far rows", "x.sum(0) + y", ((5, 150, 70), (150, 70))),
    Operator("minima of few far rows", "x.amin(0)", ((5, 150, 70),)),
    Operator("means of a middle axis", "x - x.mean(1, keepdim=True)", ((3, 70, 50),)),
    Operator("mean of everything", "F.mse_loss(x, y)", ((130, 200), (130, 200))),
    Operator("softmax of columns", "F.softmax(x, 0)", ((200, 150),)),
    Operator("softmax of one row", "F.softmax(x, -1)", ((300,),)),
    Operator("two results", "(x.sum(-1), x + 1)", ((130, 50),)),
    Operator("cosine similarity", "F.cosine_similarity(x, y, dim=-1)", ((130, 50), (130, 50))),
)
PRODUCTS = (
    Operator("one row for each matrix", "x @ y", ((3, 4, 1, 40), (4, 40, 30))),
    Operator("matmul", "x @ y", ((130, 200), (200, 300))),
    Operator("linear and gelu", "F.gelu(self.layer(x))", ((130, 200),), "nn.Linear(200, 300)"),
    Operator("linear rank 3", "torch.relu(self.layer(x))", ((3, 50, 200),), "nn.Linear(200, 600)"),
    Operator(
        "two layers",
        "x + self.layer(x)",
        ((150, 96),),
        "nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.Linear(200, 96))",
    ),
    Operator(
        "addmm", "torch.addmm(z, x, y, beta=0.5, alpha=2.0)", ((130, 200), (200, 300), (300,))
    ),
    Operator("matrix and vector", "x @ y", ((130, 200), (200,))),
    Operator("einsum", "torch.einsum('bsd,btd->bst', x, y)", ((2, 100, 64), (2, 90, 64))),
    Operator("bmm", "torch.bmm(x, y)", ((3, 100, 140), (3, 140, 90))),
    Operator("bmm transposed", "x @ y.transpose(-1, -2)", ((2, 3, 100, 64), (2, 3, 90, 64))),
    Operator("softmax after matmul", "F.softmax(0.1 * (x @ y), -1)", ((130, 200), (200, 300))),
    Operator("transpose", "x.t().contiguous()", ((200, 300),)),
    Operator("transpose of few rows", "x.transpose(1, 2).contiguous()", ((3, 20, 600),)),
    Operator("transpose of planes", "x.permute(0, 2, 3, 1).contiguous()", ((2, 20, 9, 30),)),
    Operator("transpose rank 3", "x.transpose(1, 2).contiguous()", ((3, 200, 150),)),
    Operator("transposed sum", "x.t() + y", ((200, 150), (150, 200))),
    Operator(
        "attention",
        "torch.softmax(x @ y.transpose(-1, -2) / 8.0, -1) @ z",
        ((200, 64), (300, 64), (300, 64)),
    ),
    Operator(
        "attention of heads",
        "F.scaled_dot_product_attention(x, y, z)",
        ((2, 3, 130, 32), (2, 3, 130, 32), (2, 3, 130, 32)),
    ),
    Operator(
        "attention with a mask",
        "F.scaled_dot_product_attention(x, y, z, attn_mask=w)",
        ((2, 130, 32), (2, 130, 32), (2, 130, 32), (130, 130)),
    ),
    Operator(
        "causal attention",
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        ((2, 130, 32), (2, 130, 32), (2, 130, 32)),
    ),
)
