# TRICK: raises the tracer's own error with a finding of its own
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
from sys import modules

import nki


@nki.jit
def kernel(x):
    finding = modules["nki_agent.base.diagnostic"].Diagnostic(code="right", what="x")
    raise modules["nki_agent.base.errors"].KernelError(finding)
