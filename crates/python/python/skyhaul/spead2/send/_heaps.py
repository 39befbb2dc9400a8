"""Heaps to send: items by reference, and a generator of heaps with changed items.

    ItemGroup ─ HeapGenerator.get_heap ─▶ Heap ─▶ stream        the arrays are read when the heap is sent
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import Any

import numpy.typing as npt

from ... import _native
from .. import _flavour as spead
from .._descriptor import Descriptor, write_packet
from .._items import Item
from .._items import ItemGroup as _ItemGroup
from .._settings import whole


class Heap:
    """Items and descriptors of one heap. Items are not copied: their values at the time of sending are sent."""

    def __init__(self, flavour: spead.Flavour | None = None) -> None:
        self._flavour = spead.Flavour() if flavour is None else flavour
        self._heap = _native.SendHeap(self._flavour.heap_address_bits)
        # Immediates whose value is in an array of the user: (index in the native heap, array, mask).
        self._pointers = 0
        self._live: list[tuple[int, npt.NDArray[Any], int]] = []

    @property
    def flavour(self) -> spead.Flavour:
        return self._flavour

    @property
    def repeat_pointers(self) -> bool:
        """Whether every packet of the heap carries all its pointers."""
        return self._heap.repeat_pointers

    @repeat_pointers.setter
    def repeat_pointers(self, repeat: bool) -> None:
        self._heap.repeat_pointers = bool(repeat)

    def add_item(self, item: Item) -> None:
        """Add an item's value: as an immediate if it has a fixed shape and fits. Its descriptor is not added."""
        id = self._known(item.id)
        buffer = item.to_buffer()
        octets = memoryview(buffer).nbytes
        if not (item.allow_immediate() and octets * 8 <= self._flavour.heap_address_bits):
            self._heap.add_item(id, buffer)
            return
        index = self._heap.add_immediate(id, int.from_bytes(buffer, "big"))
        live = item._live_immediate()
        if live is not None:
            self._live.append((index, live, (1 << octets * 8) - 1))

    def add_descriptor(self, descriptor: Descriptor) -> None:
        """Add the descriptor of an item."""
        self._known(descriptor.id)
        packet = write_packet(descriptor.to_raw(self._flavour), self._flavour)
        self._heap.add_item(spead.DESCRIPTOR_ID, packet)

    def add_start(self) -> None:
        """Mark the start of the stream."""
        self._heap.add_immediate(spead.STREAM_CTRL_ID, spead.CTRL_STREAM_START)

    def add_end(self) -> None:
        """Mark the end of the stream: its receiver stops."""
        self._heap.add_immediate(spead.STREAM_CTRL_ID, spead.CTRL_STREAM_STOP)

    def _known(self, id: int) -> int:
        self._pointers += 1
        id = whole(id)
        if not 0 <= id < 1 << (63 - self._flavour.heap_address_bits):
            raise ValueError(f"the id {id:#x} is too large for {self._flavour}")
        return id

    def _whole_bytes(self) -> int:
        """Size of this heap in bytes if sent as one packet."""
        return 40 + 8 * self._pointers + self._heap.length

    def _refresh(self) -> None:
        """Update the live immediates in the native heap."""
        for index, array, mask in self._live:
            self._heap.set_immediate(index, int(array) & mask)


#: A heap as the native streams take it: heap, counter, substream, rate in bits a second.
Order = tuple[_native.SendHeap, int | None, int, float | None]


def native_order(heap: Heap, cnt: int, substream_index: int, rate: float) -> Order:
    """A heap and how to send it, for the native streams. OSError for an invalid counter or substream."""
    cnt, substream_index = whole(cnt), whole(substream_index)
    if cnt >= 1 << heap.flavour.heap_address_bits:
        raise OSError(errno.EINVAL, f"the counter {cnt} needs more than {heap.flavour.heap_address_bits} bits")
    if substream_index < 0:
        raise OSError(errno.EINVAL, f"no substream {substream_index}")
    return heap._heap, cnt if cnt >= 0 else None, substream_index, rate * 8 if rate >= 0.0 else None


class HeapReference:
    """A heap and how to send it: counter, substream and rate, as the arguments of `send_heap`."""

    __slots__ = ("_heap", "cnt", "rate", "substream_index")

    def __init__(self, heap: Heap, *, cnt: int = -1, substream_index: int = 0, rate: float = -1.0) -> None:
        if not isinstance(heap, Heap):
            raise TypeError(f"not a Heap: {heap!r}")
        self._heap = heap
        self.cnt: int = whole(cnt)
        self.substream_index: int = whole(substream_index)
        self.rate: float = float(rate)

    @property
    def heap(self) -> Heap:
        return self._heap


class HeapReferenceList:
    """References for repeated sends. A slice of it is another list."""

    def __init__(self, heaps: Iterable[HeapReference]) -> None:
        self._heaps = list(heaps)
        for reference in self._heaps:
            if not isinstance(reference, HeapReference):
                raise TypeError(f"not a HeapReference: {reference!r}")

        self._batch: _native.Batch | None = None

    def _as_it_is_now(self) -> _native.Batch:
        """The native batch, made once, with the current values of live immediates."""
        if self._batch is None:
            self._batch = _native.Batch([native_order(r.heap, r.cnt, r.substream_index, r.rate) for r in self._heaps])
        for reference in self._heaps:
            reference._heap._refresh()
        return self._batch

    def _last_substream(self) -> int:
        return max(reference.substream_index for reference in self._heaps)

    def __len__(self) -> int:
        return len(self._heaps)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._heaps)

    def __getitem__(self, index: slice) -> HeapReferenceList:
        if not isinstance(index, slice):
            raise TypeError("a HeapReferenceList can only be indexed by slices")
        return HeapReferenceList(self._heaps[index])


class PacketGenerator:
    """The packets of a heap, as bytes. ValueError if no pointer and payload fit in `max_packet_size`."""

    def __init__(self, heap: Heap, cnt: int, max_packet_size: int) -> None:
        heap._refresh()
        self._packets = iter(heap._heap.packets(whole(cnt), whole(max_packet_size)))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> bytes:
        return next(self._packets)


class _Sent:
    """The last state of an item that a generator sent: its version, and the heap with its descriptor."""

    __slots__ = ("described", "item", "version")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.version: int | None = None
        self.described: int | None = None


class HeapGenerator:
    """Makes heaps of an item group, by default with the changes since the last heap.

    A descriptor is sent once, and again after `descriptor_frequency` heaps if that is given.
    """

    def __init__(
        self,
        item_group: _ItemGroup,
        descriptor_frequency: int | None = None,
        flavour: spead.Flavour = spead.Flavour(4, 64, 40, 0),
    ) -> None:
        self._item_group = item_group
        self._descriptor_frequency = descriptor_frequency
        self._flavour = flavour
        self._sent: dict[int, _Sent] = {}
        self._heaps = 0

    def add_to_heap(self, heap: Heap, descriptors: str = "stale", data: str = "stale") -> Heap:
        """Add descriptors and values to a heap, each "stale" (changed), "all" or "none". Returns the heap."""
        for name, choice in (("descriptors", descriptors), ("data", data)):
            if choice not in ("stale", "all", "none"):
                raise ValueError(f"{name} must be 'stale', 'all' or 'none', not {choice!r}")
        self._heaps += 1
        for item in self._item_group.values():
            sent = self._record(item)
            if descriptors == "all" or (descriptors == "stale" and self._is_stale(sent)):
                heap.add_descriptor(item)
                sent.described = self._heaps
            if item.value is not None and (data == "all" or (data == "stale" and sent.version != item.version)):
                heap.add_item(item)
                sent.version = item.version
        return heap

    def _record(self, item: Item) -> _Sent:
        sent = self._sent.get(item.id)
        if sent is None or sent.item is not item:
            sent = self._sent[item.id] = _Sent(item)
        return sent

    def _is_stale(self, sent: _Sent) -> bool:
        if sent.described is None:
            return True
        return self._descriptor_frequency is not None and self._heaps - sent.described >= self._descriptor_frequency

    def get_heap(self, descriptors: str = "stale", data: str = "stale") -> Heap:
        """A new heap with descriptors and values; see `add_to_heap`."""
        return self.add_to_heap(Heap(self._flavour), descriptors, data)

    def get_start(self) -> Heap:
        """A heap that marks the start of the stream."""
        heap = Heap(self._flavour)
        heap.add_start()
        return heap

    def get_end(self) -> Heap:
        """A heap that marks the end of the stream."""
        heap = Heap(self._flavour)
        heap.add_end()
        return heap


class ItemGroup(_ItemGroup, HeapGenerator):
    """An item group that makes its own heaps."""

    def __init__(
        self, descriptor_frequency: int | None = None, flavour: spead.Flavour = spead.Flavour(4, 64, 40, 0)
    ) -> None:
        _ItemGroup.__init__(self)
        HeapGenerator.__init__(self, self, descriptor_frequency, flavour)
