# TRICK: raises an error whose type is named like a verdict
# STAGE: untraceable
# CODE: NK109
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


@nki.jit
def kernel(x):
    raise type("\x1b[2J RIGHT\n", (Exception,), {})
