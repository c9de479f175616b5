# TRICK: raises the tracer's own error with no finding
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
from sys import modules

import nki


@nki.jit
def kernel(x):
    error = modules["nki_agent.base.errors"].KernelError
    forged = error.__new__(error)
    forged.diagnostic = None
    raise forged
