import pytest

from nki_agent.isa.dtype import DType
from nki_agent.task.task import Work
from tests.task.conftest import Load

FLOAT = 4


def work_of(load: Load, body: str, inputs: str) -> Work:
    signature = ", ".join("abcd"[: inputs.count("randn") + inputs.count("randint")])
    return load(
        f"def reference({signature}):\n    return {body}\ndef inputs():\n    return [{inputs}]\n"
    ).work


def test_elementwise_task_reads_and_writes_each_element_once(load_torch: Load) -> None:
    work = work_of(load_torch, "torch.exp(a) + b", "torch.randn(30, 40), torch.randn(40)")
    assert work.min_hbm_bytes == (30 * 40 + 40 + 30 * 40) * FLOAT
    assert (work.elementwise_elems, work.matmul_flops) == (30 * 40, 0)


@pytest.mark.parametrize(
    ("body", "inputs", "flops"),
    [
        ("a @ b", "torch.randn(30, 40), torch.randn(40, 50)", 2 * 30 * 40 * 50),
        (
            "functional.linear(a, b, c)",
            "torch.randn(30, 40), torch.randn(50, 40), torch.randn(50)",
            2 * 30 * 40 * 50,
        ),
        ("a @ b", "torch.randn(3, 4, 5), torch.randn(3, 5, 6)", 2 * 3 * 4 * 5 * 6),
        (
            "torch.einsum('ij,kj->ik', a, b)",
            "torch.randn(30, 40), torch.randn(50, 40)",
            2 * 30 * 40 * 50,
        ),
        (
            "functional.scaled_dot_product_attention(a, b, c)",
            "torch.randn(1, 2, 8, 16), torch.randn(1, 2, 9, 16), torch.randn(1, 2, 9, 16)",
            2 * 2 * 8 * 9 * (16 + 16),
        ),
        (
            "functional.conv2d(a, b)",
            "torch.randn(2, 3, 8, 8), torch.randn(5, 3, 3, 3)",
            2 * (2 * 5 * 6 * 6) * (3 * 3 * 3),
        ),
        (
            "functional.conv_transpose2d(a, b)",
            "torch.randn(2, 3, 8, 8), torch.randn(3, 5, 3, 3)",
            2 * (2 * 3 * 8 * 8) * (5 * 3 * 3),
        ),
    ],
)
def test_matmul_flops_count_each_multiply_and_add(
    load_torch: Load, body: str, inputs: str, flops: int
) -> None:
    assert work_of(load_torch, body, inputs).matmul_flops_by_dtype == {DType.FLOAT32: flops}


def test_lstm_counts_its_gates(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(6, 5)

            def forward(self, x):
                return self.lstm(x)[0]

        def get_inputs():
            return [torch.randn(7, 3, 6)]
    """)
    assert task.work.matmul_flops == 2 * 7 * 3 * (20 * 6 + 20 * 5)


def test_matmul_operands_need_no_other_engine(load_torch: Load) -> None:
    work = work_of(load_torch, "a @ b", "torch.randn(3, 400), torch.randn(400, 5)")
    assert work.elementwise_elems == 3 * 5


def test_pure_movement_needs_no_engine(load_torch: Load) -> None:
    work = work_of(load_torch, "torch.cat([a.T, b])", "torch.randn(3, 4), torch.randn(4, 3)")
    assert work.elementwise_elems == 0
    assert work.min_hbm_bytes == 2 * 24 * FLOAT


def test_returned_view_reads_what_it_shows(load_torch: Load) -> None:
    work = work_of(load_torch, "a[:2].T", "torch.randn(30, 4)")
    assert work.min_hbm_bytes == 2 * (2 * 4) * FLOAT


def test_gather_reads_only_the_gathered_rows(load_torch: Load) -> None:
    work = work_of(load_torch, "a[b]", "torch.randn(1000, 16), torch.randint(0, 1000, (8,))")
    assert work.min_hbm_bytes == (8 * 16 + 8 + 8 * 16) * FLOAT


def test_slices_read_only_themselves(load_torch: Load) -> None:
    work = work_of(load_torch, "a[:, :10] * 2 + a[:, 10:20]", "torch.randn(8, 100)")
    assert work.min_hbm_bytes == (8 * 20 + 8 * 10) * FLOAT


def test_update_in_place_writes_only_what_it_changes(load_torch: Load) -> None:
    task = load_torch("""
        UPDATES = ("cache",)

        def reference(cache, row):
            cache[3] = row

        def inputs():
            return [torch.randn(100, 16), torch.randn(16)]
    """)
    assert task.work.min_hbm_bytes == 2 * 16 * FLOAT


def test_depth_is_the_longest_sum(load_torch: Load) -> None:
    assert work_of(load_torch, "a.sum(-1)", "torch.randn(8, 100)").reduction_depth == 100
    assert work_of(load_torch, "a @ a.T", "torch.randn(8, 70)").reduction_depth == 70
    assert work_of(load_torch, "torch.softmax(a, -1)", "torch.randn(8, 60)").reduction_depth == 60
    norm = "functional.group_norm(a, 2)"
    assert work_of(load_torch, norm, "torch.randn(3, 4, 10)").reduction_depth == 20


@pytest.mark.parametrize(
    ("body", "flops", "depth"),
    [
        ("a @ b", 2 * 6 * 8 * 5, 8),
        ("np.matmul(a, b)", 2 * 6 * 8 * 5, 8),
        ("a.dot(b)", 2 * 6 * 8 * 5, 8),
        ("np.dot(a, b)", 2 * 6 * 8 * 5, 8),
        ("np.einsum('ij,jk->ik', a, b)", 2 * 6 * 8 * 5, 8),
        ("np.tensordot(a, b, 1)", 2 * 6 * 8 * 5, 8),
        ("np.tensordot(a, b, ([1], [0]))", 2 * 6 * 8 * 5, 8),
        ("np.inner(a, b.T.copy())", 2 * 6 * 8 * 5, 8),
        ("a[:, :5] * b[:6]", 0, 1),
        ("np.einsum('ij,ij->ij', a[:, :5], b[:6])", 0, 1),
    ],
)
def test_numpy_products_are_counted(load_numpy: Load, body: str, flops: int, depth: int) -> None:
    work = load_numpy(f"""
        def reference(a, b):
            return {body}

        def inputs(rng):
            return [rng.random((6, 8), dtype=np.float32), rng.random((8, 5), dtype=np.float32)]
    """).work
    assert work.matmul_flops == flops
    assert work.reduction_depth >= depth
    assert work.min_hbm_bytes == (48 + 40 + 30) * FLOAT


def test_attention_of_16_bit_tensors_multiplies_in_16_bits(load_torch: Load) -> None:
    task = load_torch(
        "def reference(q, k, v):\n"
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v)\n"
        "def inputs():\n"
        "    return [torch.randn(64, 16, dtype=torch.bfloat16) for _ in range(3)]\n"
    )
    assert task.work.matmul_flops_by_dtype == {DType.BFLOAT16: 2 * 2 * 64 * 64 * 16}


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        ("a.float()", "b.float().T", DType.BFLOAT16),
        ("a.float().clone()", "b.float()", DType.BFLOAT16),
        ("a.float()", "c", DType.FLOAT32),
        ("a.float() * 2", "b.float()", DType.FLOAT32),
        ("a.float()", "d.float()", DType.BFLOAT16),
        ("d.float()", "d.to(torch.int32).float()", DType.FLOAT32),
    ],
)
def test_matmul_of_widened_tensors_multiplies_in_the_format_they_came_in(
    load_torch: Load, left: str, right: str, dtype: DType
) -> None:
    task = load_torch(
        "TOLERANCE = 'F2'\n"
        f"def reference(a, b, c, d):\n    return ({left}) @ ({right}), a + b + c + d\n"
        "def inputs():\n"
        "    a, b = (torch.randn(20, 20, dtype=torch.bfloat16) for _ in range(2))\n"
        "    return [a, b, torch.randn(20, 20), torch.randint(-9, 9, (20, 20), dtype=torch.int8)]\n"
    )
    assert task.work.matmul_flops_by_dtype == {dtype: 2 * 20 * 20 * 20}


@pytest.mark.parametrize(
    ("tolerance", "dtype"), [("F2", DType.FLOAT32), ("F3", DType.FLOAT16), ("F4", DType.FLOAT16)]
)
def test_float32_products_may_be_short_where_the_class_forgives_it(
    load_torch: Load, tolerance: str, dtype: DType
) -> None:
    task = load_torch(
        f"TOLERANCE = '{tolerance}'\n"
        "def reference(a, b):\n    return a @ b\n"
        "def inputs():\n    return [torch.randn(20, 20), torch.randn(20, 20)]\n"
    )
    assert task.work.matmul_flops_by_dtype == {dtype: 2 * 20 * 20 * 20}


def test_convolution_counts_no_taps_on_padding(load_torch: Load) -> None:
    work = load_torch(
        "def reference(x, w):\n    return torch.nn.functional.conv2d(x, w, padding=1)\n"
        "def inputs():\n    return [torch.randn(2, 3, 5, 7), torch.randn(4, 3, 3, 3)]\n"
    ).work
    assert work.matmul_flops == 2 * 2 * 3 * 4 * (3 * 5 - 2) * (3 * 7 - 2)


def test_transposed_convolution_counts_no_taps_outside_of_its_output(load_torch: Load) -> None:
    work = load_torch(
        "def reference(x, w):\n"
        "    return torch.nn.functional.conv_transpose1d(x, w, stride=2, padding=1)\n"
        "def inputs():\n    return [torch.randn(2, 3, 5), torch.randn(3, 4, 4)]\n"
    ).work
    assert work.matmul_flops == 2 * 2 * 3 * 4 * (4 * 5 - 2)


def test_convolution_reads_what_its_window_meets(load_torch: Load) -> None:
    work = load_torch(
        "def reference(x, w):\n"
        "    return torch.nn.functional.conv1d(x, w, stride=2, dilation=2, padding=2)\n"
        "def inputs():\n    return [torch.randn(2, 3, 9), torch.randn(4, 3, 3)]\n"
    ).work
    assert work.min_hbm_bytes == FLOAT * (2 * 3 * 5 + 4 * 3 * 3 + 2 * 4 * 5)
