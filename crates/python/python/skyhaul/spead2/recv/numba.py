"""The argument of a place callback, for callbacks compiled by numba."""

from typing import Any

from numba import types

__all__ = ["chunk_place_data"]

chunk_place_data: Any = types.Record.make_c_struct(
    [
        ("packet", types.intp),
        ("packet_size", types.uintp),
        ("items", types.intp),
        ("chunk_id", types.int64),
        ("heap_index", types.uintp),
        ("heap_offset", types.uintp),
        ("batch_stats", types.intp),
        ("extra", types.intp),
        ("extra_offset", types.uintp),
        ("extra_size", types.uintp),
    ]
)
