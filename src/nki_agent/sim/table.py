"""Which handler simulates which instruction; a test holds it against `isa.table`."""

from __future__ import annotations

from collections.abc import Callable

from nki_agent.sim import (
    chance,
    gather,
    gpsimd,
    microscaling,
    movement,
    printing,
    reduction,
    scalar,
    search,
    tensor,
    vector,
)
from nki_agent.sim.site import Site

HANDLERS: dict[str, Callable[[Site], None]] = {
    "activate2": scalar.activate2,
    "activation": scalar.activation,
    "activation_reduce": scalar.activation_reduce,
    "affine_select": gpsimd.affine_select,
    "bn_aggr": reduction.bn_aggr,
    "bn_stats": reduction.bn_stats,
    "device_print": printing.device_print,
    "dma_compute": movement.dma_compute,
    "dma_copy": movement.dma_copy,
    "dma_transpose": movement.dma_transpose,
    "dropout": chance.dropout,
    "exponential": reduction.exponential,
    "iota": gpsimd.iota,
    "local_gather": gather.local_gather,
    "max8": search.max8,
    "memset": movement.memset,
    "nc_find_index8": search.nc_find_index8,
    "nc_match_replace8": search.nc_match_replace8,
    "nc_matmul": tensor.nc_matmul,
    "nc_matmul_mx": microscaling.nc_matmul_mx,
    "nc_n_gather": gather.nc_n_gather,
    "nc_stream_shuffle": gather.nc_stream_shuffle,
    "nc_transpose": tensor.nc_transpose,
    "nonzero_with_count": gather.nonzero_with_count,
    "quantize_mx": microscaling.quantize_mx,
    "rand2": chance.rand2,
    "rand_get_state": chance.rand_get_state,
    "rand_set_state": chance.rand_set_state,
    "range_select": reduction.range_select,
    "reciprocal": vector.reciprocal,
    "rng": chance.rng,
    "scalar_tensor_tensor": vector.scalar_tensor_tensor,
    "select_reduce": reduction.select_reduce,
    "sequence_bounds": gather.sequence_bounds,
    "set_rng_seed": chance.set_rng_seed,
    "tensor_copy": movement.tensor_copy,
    "tensor_copy_predicated": movement.tensor_copy_predicated,
    "tensor_partition_reduce": gpsimd.tensor_partition_reduce,
    "tensor_reduce": reduction.tensor_reduce,
    "tensor_scalar": vector.tensor_scalar,
    "tensor_scalar_cumulative": reduction.tensor_scalar_cumulative,
    "tensor_scalar_reduce": reduction.tensor_scalar_reduce,
    "tensor_tensor": vector.tensor_tensor,
    "tensor_tensor_scan": vector.tensor_tensor_scan,
    "topk": gather.topk,
}
"""By the name in `isa.table.TABLE`."""
