"""Compiled place functions, from any compiler.

    place = scipy.LowLevelCallable(function.ctypes)      function = numba.cfunc(...)(...)
    place = function                                     numba.cfunc, or a function of a ctypes library with argtypes
    place = (capsule, ...)                               a capsule named after the signature, with the user data as context

The function is `void (void *place, size_t size)`. One with the user data as a third argument needs a `LowLevelCallable` or
a capsule, which hold that data; a bare one is refused, as is a signature that disagrees with the function's. `place` points to

    packet, packet_size      uint8_t *, size_t: the heap's first packet; over TCP only its head, as its payload is read
                             straight into the chunk. Valid during the call
    items                    int64_t *: the values of the requested items, in that order; -1 for a missing one
    chunk_id                 int64_t, to be set; initially -1, which discards the heap
    heap_index, heap_offset  size_t, to be set: the heap's index in its chunk, and its first byte there
    batch_stats              uint64_t *: statistics to be added to: of the stream (skyhaul.spead2), or the counters without
                             an expression, in their order (skyhaul.spead)
    extra uint8_t *: notes of the heap, to be written; extra_offset and extra_size give their place and length
    extra_offset, extra_size size_t, to be set

It is called from threads of the stream, without the GIL. Its results are checked before a byte is written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _native

_TWO = b"void (void *, size_t)"
_THREE = b"void (void *, size_t, void *)"


class PlaceData(ctypes.Structure):
    """The argument of the function."""

    _fields_ = (
        ("packet", ctypes.c_void_p),
        ("packet_size", ctypes.c_size_t),
        ("items", ctypes.POINTER(ctypes.c_int64)),
        ("chunk_id", ctypes.c_int64),
        ("heap_index", ctypes.c_size_t),
        ("heap_offset", ctypes.c_size_t),
        ("batch_stats", ctypes.POINTER(ctypes.c_uint64)),
        ("extra", ctypes.POINTER(ctypes.c_uint8)),
        ("extra_offset", ctypes.c_size_t),
        ("extra_size", ctypes.c_size_t),
    )


def native(place: Any, items: Sequence[int], is_strict: bool = True) -> _native.PlaceFunction:
    """The function, with the ids of its items. TypeError or ValueError if it is not one of the kinds above.

    If not `is_strict`, one of three arguments with the signature of two is called with its user data, or a null pointer.
    """
    address, context = _resolved(place, is_strict)
    return _native.PlaceFunction(address, context, place, list(items))


def _resolved(place: Any, is_strict: bool) -> tuple[int, int | None]:
    """Address and user data (None: the function has two arguments)."""
    if isinstance(place, tuple):
        return _of_capsule(place, is_strict)
    if isinstance(getattr(place, "address", None), int):  # numba.cfunc
        _check_bare(_arguments(place))
        return place.address, None
    if isinstance(place, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        _check_bare(_arguments(place))
        return ctypes.cast(place, ctypes.c_void_p).value or 0, None
    hint = "hint: use a scipy.LowLevelCallable, a numba.cfunc, or a function of a ctypes library"
    raise TypeError(f"a place function must be compiled, not {place!r}; {hint}")


def _arguments(function: Any) -> int | None:
    """The number of arguments of a function of numba or ctypes, if it is known."""
    signature = getattr(function, "_sig", None)  # numba.cfunc
    arguments = getattr(signature, "args", None) if signature is not None else getattr(function, "argtypes", None)
    return None if arguments is None else len(arguments)


def _check_bare(arguments: int | None) -> None:
    """TypeError for a function that would be called with wrong arguments."""
    if arguments is None:
        raise TypeError(
            "the arguments of this place function are not known; "
            "hint: function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]"
        )
    if arguments != 2:
        raise TypeError(
            f"a place function has the arguments (place, size), this one has {arguments}; hint: one with user data as the "
            "third needs scipy.LowLevelCallable(function.ctypes, user_data=..., signature='void (void *, size_t, void *)')"
        )


def _of_capsule(place: tuple[Any, ...], is_strict: bool) -> tuple[int, int | None]:
    capsule, name = capsule_of(place)
    # A LowLevelCallable knows the function that it was made of; what else follows a capsule may be anything.
    arguments, named = _arguments(getattr(place, "function", None)), 3 if name == _THREE else 2
    if arguments is not None and arguments != named and (is_strict or arguments != 3):
        raise ValueError(
            f"this place callback has {arguments} arguments, but its signature {name.decode()!r} has {named}; "
            "hint: leave out signature, or give that of the function"
        )
    address = _capsule_pointer(capsule, name)
    return address, (_capsule_context(capsule) or 0) if 3 in (arguments, named) else None


def capsule_of(place: tuple[Any, ...]) -> tuple[Any, bytes]:
    """The capsule at the front of a tuple, and its signature. IndexError, TypeError or ValueError if it is invalid."""
    # A LowLevelCallable is a tuple whose own indexing does not work.
    capsule = tuple.__getitem__(place, 0)
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"a place callback begins with a capsule, not {capsule!r}")
    name: bytes = _capsule_name(capsule) or b""
    if name not in (_TWO, _THREE):
        known = " or ".join(repr(signature.decode()) for signature in (_TWO, _THREE))
        raise ValueError(f"the signature of a place callback is {known}, not {name.decode(errors='replace')!r}")
    return capsule, name


def _c(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_name = _c("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_capsule_pointer = _c("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_context = _c("PyCapsule_GetContext", ctypes.c_void_p, ctypes.py_object)
