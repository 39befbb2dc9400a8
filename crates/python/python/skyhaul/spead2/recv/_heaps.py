"""Received heaps and their items.

    heap.get_items() ─▶ [RawItem]      arrays of bytes in the heap's own memory
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ... import _native
from .. import _flavour as spead
from .._codec import Octets
from .._descriptor import RawDescriptor, read_packet


# Not `npt.NDArray`: an alias of types that from NumPy 2.5 on is no class.
class RawItem(np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]):
    """The bytes of an item: an array of uint8 with `id`, `is_immediate` and `immediate_value`.

    An immediate item has the bytes of its pointer's value, big-endian.
    """

    id = 0
    is_immediate = False
    immediate_value = 0

    @classmethod
    def _addressed(cls, id: int, octets: Octets) -> Self:
        raw = octets.view(cls)
        raw.id = id
        return raw

    @classmethod
    def _immediate(cls, id: int, value: int, octets: int) -> Self:
        # Writable, as spead2's.
        raw = np.array([value], ">u8").view(np.uint8)[8 - octets :].view(cls)
        raw.id, raw.is_immediate, raw.immediate_value = id, True, value
        return raw


class _HeapBase:
    """Base of complete and incomplete heaps."""

    __slots__ = ("__dict__", "__weakref__", "_bug_compat", "_native")

    _has_payload = True

    def __init__(self, native: _native.Heap, bug_compat: int) -> None:
        self._native = native
        self._bug_compat = bug_compat

    @property
    def cnt(self) -> int:
        """The heap's counter."""
        return self._native.counter

    @property
    def flavour(self) -> spead.Flavour:
        """The variant of SPEAD of its packets."""
        return spead.Flavour(4, 64, self._native.address_bits, self._bug_compat)

    def get_items(self) -> list[RawItem]:
        """A list of `RawItem`, without descriptors."""
        return [raw for raw in self._raw_items() if raw.id != spead.DESCRIPTOR_ID]

    def _raw_items(self) -> list[RawItem]:
        items = self._native.raw_items()
        return [self._raw_item(*item) for item in items if item[1] or self._has_payload]

    def _raw_item(self, id: int, immediate: bool, value: int, start: int, stop: int) -> RawItem:
        if immediate:
            return RawItem._immediate(id, value, self._native.address_bits // 8)
        payload: Any = self._native.payload
        return RawItem._addressed(id, np.frombuffer(payload, np.uint8, stop - start, start))

    def is_start_of_stream(self) -> bool:
        """Whether it marks the start of a stream."""
        return self._native.is_start_of_stream()

    def is_end_of_stream(self) -> bool:
        """Whether it marks the end of the stream."""
        return self._native.is_end_of_stream()


class Heap(_HeapBase):
    """A heap of which every byte was received."""

    __slots__ = ()

    def get_descriptors(self) -> list[RawDescriptor]:
        """A list of `RawDescriptor`. ValueError if one is malformed."""
        return self._described(self._native.raw_items())

    def _described(self, items: list[tuple[int, bool, int, int, int]]) -> list[RawDescriptor]:
        """The descriptors among these items."""
        places = [
            (start, stop)
            for id, immediate, _, start, stop in items
            if id == spead.DESCRIPTOR_ID and not immediate
        ]
        if not places:
            return []
        payload = memoryview(self._native.payload)
        return [read_packet(payload[start:stop].tobytes(), self._bug_compat) for start, stop in places]


class IncompleteHeap(_HeapBase):
    """A heap with missing bytes: its immediate items, and its lengths."""

    __slots__ = ("_ranges",)

    _has_payload = False

    def __init__(self, native: _native.Heap, bug_compat: int, keep_ranges: bool) -> None:
        super().__init__(native, bug_compat)
        self._ranges = _received(native) if keep_ranges else []

    @property
    def heap_length(self) -> int:
        """Its full size in bytes, -1 if no packet stated it."""
        return -1 if self._native.size is None else self._native.size

    @property
    def received_length(self) -> int:
        """Bytes received."""
        return self._native.received

    @property
    def payload_ranges(self) -> list[tuple[int, int]]:
        """[(first, past the last)] of the received bytes, if the stream is configured to keep them, else empty."""
        return list(self._ranges)


def _received(native: _native.Heap) -> list[tuple[int, int]]:
    """The received ranges of a heap."""
    ranges, at = [], 0
    for start, stop in native.missing:
        if start > at:
            ranges.append((at, start))
        at = stop
    if native.length > at:
        ranges.append((at, native.length))
    return ranges
