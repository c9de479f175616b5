"""Attention is one stage only where keys and values of the next block fit beside this one's."""

from __future__ import annotations

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

DECODE = "F.softmax(x @ y.transpose(-1, -2), -1) @ y"


@pytest.mark.parametrize(("keys", "is_fused"), [(512, True), (4096, False)])
def test_attention_whose_next_keys_do_not_fit_is_stored_between(
    keys: int, make_task: MakeTask, *, is_fused: bool
) -> None:
    shapes = ((2, 16, 512), (2, keys, 512))
    task = make_task(Operator("decode", DECODE, shapes).source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert ("exponentials(" in text) is is_fused
