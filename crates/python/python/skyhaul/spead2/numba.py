"""Helpers for callbacks compiled by numba."""

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["intp_to_voidptr"]


@intrinsic
def intp_to_voidptr(typing_context: Any, src: Any) -> Any:
    """A whole number as a pointer to void, as `numba.carray` takes it."""
    if not isinstance(src, types.Integer):
        return None

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), code

