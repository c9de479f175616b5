# TRICK: raises the tracer's own error with mere advice
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: cheat
# BEHIND CODE: NK902
from sys import modules

import nki


@nki.jit
def kernel(x):
    diagnostic = modules["nki_agent.base.diagnostic"]
    advice = diagnostic.Diagnostic(code="NK601", what="x", severity=diagnostic.Severity.ADVICE)
    raise modules["nki_agent.base.errors"].KernelError(advice)
