# TRICK: computes with PyTorch while it is imported
# STAGE: refused
# CODE: NK107
# BEHIND STAGE: untraceable
# BEHIND CODE: NK109
import torch

import nki
import nki.isa as nisa
import nki.language as nl


ANSWER = torch.softmax(torch.randn(200, 96), dim=1).numpy()


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.shared_constant(ANSWER))
    return out
