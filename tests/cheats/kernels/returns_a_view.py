# TRICK: returns its argument seen in another way
# STAGE: untraceable
# CODE: NK112
# BEHIND STAGE: untraceable
# BEHIND CODE: NK112
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    return x[0:200, 0:96].reshape((96, 200)).reshape((200, 96))
