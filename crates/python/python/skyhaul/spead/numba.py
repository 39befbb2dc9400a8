"""The argument of a place function as a numba type, and what such functions need.

    from skyhaul.spead.numba import intp_to_voidptr, place_data

    @numba.cfunc(types.void(types.CPointer(place_data), types.uintp))
    def place(pointer, size):
        data = numba.carray(pointer, 1)
        items = numba.carray(intp_to_voidptr(data[0].items), 2, dtype=np.int64)
        data[0].chunk_id, data[0].heap_index = items[0] // 256, items[1]

ImportError if numba is not installed.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["intp_to_voidptr", "place_data"]

#: `PlaceData` of `skyhaul.spead.recv`: pointers are whole numbers, to be converted by `intp_to_voidptr`.
place_data: Any = types.Record.make_c_struct(
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


@intrinsic
def intp_to_voidptr(typing_context: Any, src: Any) -> Any:
    """A whole number as a pointer to void, as `numba.carray` takes it."""
    if not isinstance(src, types.Integer):
        return None

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), code
