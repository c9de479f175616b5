"""`nl.tile_size`: sizes of the chip that the running trace is for."""

from __future__ import annotations

from nki_agent.chip.spec import ChipSpec
from nki_agent.nki.current.recorder import require_chip

FP32_BYTES = 4
MIN_ALIGN_BYTES = 4


def _chip() -> ChipSpec:
    return require_chip("nl.tile_size")


class TileSize:
    """Read-only sizes; names as in nki.language.tile_size."""

    @property
    def pmax(self) -> int:
        """Most partitions of a tile."""
        return _chip().partitions

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements of one PSUM bank in a partition."""
        return _chip().psum_bank_bytes // FP32_BYTES

    @property
    def psum_fmax(self) -> int:
        """Deprecated name of `psum_bank_fmax`."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of one PSUM bank in a partition."""
        return _chip().psum_bank_bytes

    @property
    def gemm_stationary_fmax(self) -> int:
        """Most columns of the stationary operand."""
        return _chip().matmul_stationary_free_max

    @property
    def gemm_moving_fmax(self) -> int:
        """Most columns of the moving operand."""
        return _chip().matmul_moving_free_max

    @property
    def bn_stats_fmax(self) -> int:
        """Most elements of one `bn_stats`."""
        return _chip().bn_stats_free_max

    @property
    def psum_min_align(self) -> int:
        """Alignment of a PSUM address in bytes."""
        return MIN_ALIGN_BYTES

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of an SBUF address in bytes."""
        return MIN_ALIGN_BYTES

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks."""
        return _chip().psum_banks

    @property
    def sbuf_size_bytes(self) -> int:
        """SBUF bytes of all partitions."""
        return _chip().sbuf_partition_bytes * _chip().partitions

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Usable SBUF bytes of a partition."""
        return _chip().sbuf_usable_partition_bytes

    @property
    def sbuf_fmax(self) -> int:
        """Usable float32 elements of an SBUF partition."""
        return self.sbuf_fmax_bytes // FP32_BYTES

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of `sbuf_fmax_bytes`."""
        return self.sbuf_fmax_bytes
