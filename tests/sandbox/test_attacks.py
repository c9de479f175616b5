"""Each attack on the sandbox ends as it must, and the next kernel does not notice."""

import pytest

from nki_agent.sandbox.pool import OutcomeKind, Sandbox
from tests.sandbox.attacks import ATTACKS, Attack, run_source


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained(attack: Attack, sandbox: Sandbox) -> None:
    zygote = sandbox.pid
    attack.check(sandbox.run(attack.source.encode(), limits=attack.limits))
    after = run_source(sandbox, "return np.arange(4).sum()")
    assert (after.kind, after.data) == (OutcomeKind.RESULT, b"np.int64(6)")
    assert sandbox.pid == zygote
