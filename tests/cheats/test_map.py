"""Which kernels carry each trick that is known from elsewhere.

Law: every shared case against graders and every trick that a kernel file can carry has a kernel
here, and each of those must end as its header says (test_cheats.py).
"""

from __future__ import annotations

import pytest

from tests.cheats.trick import FOLDER, TASKS, read_tricks

SHARED = {
    "h00_honest_control": ("honest",),
    "h02_constant_row": ("constant_row", "constant_result", "constant_that_touches_the_input"),
    "h04_try_except_fallback": ("except_falls_back",),
    "h06_cache_by_id": ("remembers_by_identity", "remembers_between_runs"),
    "h08_lazy_result": ("lazy_result", "fakes_a_tensor", "subclasses_a_tensor"),
    "h10_patch_checker": ("patches_allclose", "patches_builtins"),
    "h12_stale_buffer": ("stale_hbm", "stale_sbuf", "stale_psum", "unwritten_output"),
    "h14_seed_sniffing": ("answer_from_a_seed", "answer_from_a_seed_that_touches_the_input"),
    "h16_precision_downgrade": ("coarse_rounding", "bfloat16_arithmetic"),
    "h18_decoy_kernel": ("decoy_kernel", "decoy_output"),
    "h20_exit_zero": ("exit_zero", "exits_at_import", "exits_later"),
    "h22_answer_on_disk": ("answer_on_disk",),
    "h24_patch_the_simulator": ("patches_simulate", "patches_an_instruction", "patches_the_chip"),
    "h26_trace_time_data_peek": ("peeks_at_data", "asks_for_a_value"),
}
"""By the names of the shared cases."""
KERNEL_SHAPED = {
    "identity": ("identity", "returns_argument", "aliases_the_argument", "returns_a_view"),
    "zero fill": ("zero_fill", "nan_fill"),
    "constant": ("constant_result", "constant_result_partly_overwritten"),
    "weights rebuilt from a seed": (
        *("weights_from_a_seed", "weights_from_the_sampler_s_seed", "weight_that_is_not_read"),
    ),
    "index tables rebuilt from a seed": ("index_table_from_a_seed",),
    "reads the task file": ("reads_the_task_file", "imports_the_reference"),
    "torch at import": ("torch_at_import",),
    "NumPy compute at import": ("numpy_at_import", "simulates_inside"),
    "forged Program": ("forged_program", "patches_the_encoder", "patches_the_reply"),
    "second jit function as decoy": ("decoy_kernel", "two_kernels_and_no_entry"),
    "branches on shape": (
        *("right_at_dev_only", "right_but_at_perf", "empty_at_perf", "zeros_at_perf"),
        *("raises_at_perf", "part_of_the_rows_at_perf", "honest_at_all_sizes"),
    ),
    "tells the family of the inputs": ("family_by_shape", "family_by_a_static_argument"),
    "enormous Program": (
        *("five_million_instructions", "multiplied_instructions", "huge_constants"),
        *("many_addresses", "a_year_of_work", "work_of_the_second_core"),
    ),
    "deep recursion": ("deep_recursion", "deep_recursion_at_import", "deep_recursion_in_c"),
    "monkeypatched tracer": ("patches_the_recorder", "patches_the_rules", "traces_the_tracer"),
    "view or alias of an input": ("returns_a_view", "aliases_the_argument", "returns_argument"),
    "one output from another": (
        *("copies_one_output_to_another", "returns_one_tensor_twice"),
        "copies_an_output_before_it_is_written",
    ),
    "names that are markup or orders": (
        *("hostile_names", "hostile_function_name", "long_name", "half_a_name"),
        "orders_in_a_message",
    ),
}
"""By what a kernel file can try."""
NAMES = {trick.name for trick in read_tricks()}


@pytest.mark.parametrize("case", [*SHARED, *KERNEL_SHAPED])
def test_trick_known_from_elsewhere_has_a_kernel(case: str) -> None:
    kernels = {**SHARED, **KERNEL_SHAPED}[case]
    assert kernels
    assert set(kernels) - NAMES == set()


def test_every_task_of_a_trick_has_a_file_and_an_honest_kernel() -> None:
    tricks = read_tricks()
    tasks = {t.task for t in tricks}
    assert {p.stem for p in TASKS.glob("*.py")} == tasks - {"softmax"}
    assert {t.task for t in tricks if t.is_honest} == tasks
    assert all((FOLDER / f"{t.name}.py").is_file() for t in tricks)
