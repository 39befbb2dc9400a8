"""Heaps with the items of a group that have changed since the last heap.

    generator = HeapGenerator(group)
    stream.send(generator.heap())        # descriptors and all values
    group["power"].value = next_one
    stream.send(generator.heap())        # the one value
    stream.send(generator.end())
"""

from __future__ import annotations

from typing import Literal

from .. import _native
from ._codec import ItemError
from ._flavour import Flavour
from ._items import Item, ItemGroup

Choice = Literal["stale", "all", "none"]


class HeapGenerator:
    """Makes heaps of a group's items: those whose value or descriptor the receivers do not have yet.

    `descriptor_frequency`: descriptors are repeated after this number of heaps, for receivers that join late. Arrays
    are not copied: they are read when the heap is sent, so do not change one before that.
    """

    def __init__(
        self, group: ItemGroup, flavour: Flavour = Flavour(), descriptor_frequency: int | None = None
    ) -> None:
        if descriptor_frequency is not None and descriptor_frequency < 1:
            raise ValueError(f"descriptor_frequency is {descriptor_frequency}; hint: 1 or more, or None for once")
        self.group: ItemGroup = group
        self.flavour: Flavour = flavour
        self.descriptor_frequency: int | None = descriptor_frequency
        self._heaps = 0
        # By id: the item and the heap of the last descriptor sent, and the item and version of the last value sent.
        self._described: dict[int, tuple[Item, int]] = {}
        self._sent: dict[int, tuple[Item, int]] = {}

    def heap(self, descriptors: Choice = "stale", data: Choice = "stale") -> _native.SendHeap:
        """A heap of the chosen descriptors and values: those that have changed, all, or none."""
        for choice in (descriptors, data):
            if choice not in ("stale", "all", "none"):
                raise ValueError(f"{choice!r}; hint: 'stale', 'all' or 'none'")
        heap = _native.SendHeap(self.flavour.address_bits)
        self._heaps += 1
        for number in self.group.ids():
            self._describe(heap, self.group[number], descriptors)
        for number in self.group.ids():
            item = self.group[number]
            if data == "all" or (data == "stale" and self._is_new(item)):
                self.add_value(heap, item)
        return heap

    def start(self) -> _native.SendHeap:
        """A heap that begins a stream, with all descriptors."""
        heap = self.heap("all", "none")
        heap.add_start()
        return heap

    def end(self) -> _native.SendHeap:
        """A heap that ends a stream."""
        heap = _native.SendHeap(self.flavour.address_bits)
        heap.add_end()
        return heap

    def _describe(self, heap: _native.SendHeap, item: Item, choice: Choice) -> None:
        number, frequency = item._known_id(), self.descriptor_frequency
        before, when = self._described.get(number, (None, 0))
        stale = before is not item or (frequency is not None and self._heaps - when >= frequency)
        if choice == "all" or (choice == "stale" and stale):
            heap.add_item(5, item.to_bytes(self.flavour))
            self._described[number] = item, self._heaps

    def _is_new(self, item: Item) -> bool:
        before, version = self._sent.get(item._known_id(), (None, 0))
        return before is not item or version != item.version

    def add_value(self, heap: _native.SendHeap, item: Item) -> None:
        """Add the value of one item to a heap, as an immediate item if it fits."""
        number, codec = item._known_id(), item.codec
        if number > self.flavour.max_id:
            raise ItemError(f"item {item.name!r}: id {number:#x} is too large; hint: SPEAD-64-40 has larger ids")
        if item.value is None:
            return
        encoded = codec.encode(item.value)
        immediate = codec.immediate(encoded, self.flavour.address_bits)
        if immediate is None:
            heap.add_item(number, encoded)
        else:
            heap.add_immediate(number, immediate)
        self._sent[number] = item, item.version
