"""The place callback: compiled code that says where in which chunk a heap belongs.

    place = scipy.LowLevelCallable(...)        or any tuple that begins with a capsule: function, signature, user data
    the function gets a `PlaceData`, its size, and the user data if the signature has a third argument

The heap is whole when it is asked about, so there is no packet to look at: `packet` is null, `packet_size` 0. What it
answers is checked against the chunk's buffers before a byte is written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from .. import _flavour as spead

_SIGNATURES = {
    b"void (void *, size_t)": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t),
    b"void (void *, size_t, void *)": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
}


class PlaceData(ctypes.Structure):
    """What the callback reads (items), and what it answers: the layout that compiled callbacks know."""

    _fields_ = (
        ("packet", ctypes.c_void_p),
        ("packet_size", ctypes.c_size_t),
        ("items", ctypes.c_void_p),
        ("chunk_id", ctypes.c_int64),
        ("heap_index", ctypes.c_size_t),
        ("heap_offset", ctypes.c_size_t),
        ("batch_stats", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("extra_offset", ctypes.c_size_t),
        ("extra_size", ctypes.c_size_t),
    )


def check(place: Any) -> Any:
    """The same tuple if it begins with a capsule of a known signature. IndexError, TypeError or ValueError if not."""
    if place is None:
        return None
    if not isinstance(place, tuple):
        raise TypeError(f"a place callback is a tuple, not {place!r}")
    _signature(_capsule(place))
    return place


def _capsule(place: tuple[Any, ...]) -> Any:
    # A LowLevelCallable is a tuple that does not want to be indexed.
    return tuple.__getitem__(place, 0)


def _signature(capsule: Any) -> bytes:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"a place callback begins with a capsule, not {capsule!r}")
    name = _capsule_name(capsule) or b""
    if name not in _SIGNATURES:
        known = " or ".join(repr(signature.decode()) for signature in _SIGNATURES)
        raise ValueError(f"the signature of a place callback is {known}, not {name.decode(errors='replace')!r}")
    return name


def _c(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_name = _c("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_capsule_pointer = _c("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_context = _c("PyCapsule_GetContext", ctypes.c_void_p, ctypes.py_object)


class Placer:
    """Asks the callback about one heap after the other."""

    def __init__(self, place: Any, items: Sequence[int], stats: int, most_extra: int, packet_payload: int) -> None:
        if place is None:
            raise ValueError("a chunk stream needs a place callback")
        self._kept = place
        capsule = _capsule(place)
        name = _signature(capsule)
        function = _SIGNATURES[name](_capsule_pointer(capsule, name))
        context = _capsule_context(capsule)
        self.data = PlaceData()
        size, at = ctypes.sizeof(self.data), ctypes.addressof(self.data)
        two = name == b"void (void *, size_t)"
        self._call: Callable[[], None] = (lambda: function(at, size)) if two else (lambda: function(at, size, context))
        self._items = list(items)
        self._values = (ctypes.c_int64 * max(1, len(items)))()
        self.stats = (ctypes.c_uint64 * stats)()
        self.extra = (ctypes.c_uint8 * max(1, most_extra))()
        self._most_extra = most_extra
        self._packet_payload = packet_payload
        self.data.items = ctypes.addressof(self._values)
        self.data.batch_stats = ctypes.addressof(self.stats)
        self.data.extra = ctypes.addressof(self.extra)

    def ask(self, heap: Any) -> PlaceData:
        """Where this native heap belongs; `chunk_id` is -1 if nowhere."""
        data = self.data
        data.chunk_id, data.heap_index, data.heap_offset = -1, 0, 0
        data.extra_offset, data.extra_size = 0, 0
        values = {id: value for id, immediate, value, _, _ in heap.items() if immediate}
        values[spead.HEAP_CNT_ID] = heap.counter
        values[spead.HEAP_LENGTH_ID] = -1 if heap.size is None else heap.size
        values[spead.PAYLOAD_OFFSET_ID] = 0
        values[spead.PAYLOAD_LENGTH_ID] = self._packet_payload or heap.length
        for n, id in enumerate(self._items):
            self._values[n] = values.get(id, -1)
        self._call()
        if data.extra_size > self._most_extra:
            data.chunk_id = -1
        return data
