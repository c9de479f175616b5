from nki_agent.task.description import describe_task
from tests.task.conftest import Load


def test_description_names_arguments_results_limits_and_notes(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(64)
                self.unused = nn.Parameter(torch.rand(3))

            def forward(self, x, scale):
                return self.norm(x) * scale, x.argmax(-1)

        def get_inputs():
            return [torch.randn(20, 64), 0.5]
    """)
    assert describe_task(task).splitlines() == [
        "task some-task: module `Model`",
        "arguments, in order:",
        "  x: input float32 [20, 64]",
        "  scale = 0.5 (static)",
        "  unused: parameter float32 [3]",
        "  norm_weight: parameter float32 [64], `norm.weight` in the file",
        "  norm_bias: parameter float32 [64], `norm.bias` in the file",
        "results, in order:",
        "  output_0: float32 [20, 64], relative L2 error at most 2e-05 (F2)",
        "  output_1: int32 [20], equal element for element (F2)",
        (
            "trials: three standard, one big (inputs ×16 +60, ±200 at places), "
            "one tiny (inputs ×0.001)"
        ),
        "least work: 10832 bytes of HBM, 0 matmul FLOPs, 1280 elements through another engine",
        "note: the weight `unused` is never read",
    ]


def test_description_names_updates_and_codes(load_torch: Load) -> None:
    task = load_torch("""
        UPDATES = ("cache",)

        def reference(cache, x):
            cache[0] = x * 2
            return (x * 9).round().to(torch.int8)

        def inputs():
            return [torch.randn(2, 8), torch.randn(8)]
    """)
    text = describe_task(task)
    assert "cache: input float32 [2, 8], updated in place" in text
    assert "updated in place: cache" in text
    assert "one step off near a tie" in text
