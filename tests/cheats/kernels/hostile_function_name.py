# TRICK: names a function with a megabyte
# STAGE: cheat
# CODE: NK903
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import nki


def f(x, name="f" * 1_000_000):
    def inner(x):
        raise ValueError

    inner.__name__ = inner.__qualname__ = name
    inner.__code__ = inner.__code__.replace(co_name=name)
    return inner(x)


@nki.jit
def kernel(x):
    return f(x)
