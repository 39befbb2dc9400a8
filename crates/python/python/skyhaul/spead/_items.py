"""Descriptors, items and groups of items: the values in a heap.

    group = ItemGroup()
    group.add_item(name="power", shape=(4096,), dtype="<f4", description="per channel, in Jy")
    group["power"].value = spectrum            # to be sent by a HeapGenerator
    updated = group.update(heap)               # or received: {"power": Item}

Values of ordinary dtypes are views of the heap's memory, without a copy; they keep the heap alive. A group must be used
by one thread at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ._codec import Codec, Format, ItemError, Shape, format_of, header_of, read_header
from ._flavour import BugCompat, Flavour

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Descriptor", "Item", "ItemError", "ItemGroup", "UpdateError"]

#: The first id that a group assigns; smaller ones are reserved or fixed by convention.
FIRST_ID = 0x1000
#: The largest of any flavour.
LARGEST_ID = (1 << 55) - 1


def _id(id: int | None, name: str) -> int | None:
    """A valid id in some flavour."""
    number = None if id is None else operator.index(id)
    if number is not None and not 0 <= number <= LARGEST_ID:
        hint = f"hint: up to {LARGEST_ID:#x}, usually from {FIRST_ID:#x} on, or None for a free one"
        raise ItemError(f"item {name!r}: no flavour has the id {number:#x}; {hint}")
    return number


def _text(text: str) -> str:
    """A valid text. Writing a descriptor also checks that it is ASCII."""
    if not isinstance(text, str):
        raise TypeError(f"names and descriptions are text, not {text!r}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ItemError(f"{text!r} contains a lone surrogate; hint: use ASCII letters")
    return text


def _size(size: int, name: str) -> int:
    number = operator.index(size)
    if not 0 <= number < 1 << 63:
        raise ItemError(f"item {name!r}: {number} elements in a dimension; hint: 0 or more, or None if variable")
    return number


class Descriptor:
    """Name, shape and type of an item.

    `shape` has at most one `None`, a dimension of variable length. The type is a NumPy dtype, or a `format`: a sequence
    of (code, bits) with codes `u`, `i`, `f`, `b` (boolean) and `c` (character), big-endian and packed. With `order="F"`
    the first index varies fastest. A dtype with a variable dimension becomes the format with the same values, because a
    NumPy header has no variable dimensions.
    """

    __slots__ = ("codec", "description", "format", "header", "id", "name", "order", "shape")

    def __init__(
        self,
        id: int | None,
        name: str,
        description: str = "",
        shape: Sequence[int | None] = (),
        dtype: npt.DTypeLike | None = None,
        format: Sequence[tuple[str, int]] | None = None,
        order: str = "C",
    ) -> None:
        if (dtype is None) == (format is None):
            raise ItemError(f"item {name!r}: specify either dtype or format; hint: dtype='>u2', or format=[('u', 12)]")
        if order not in ("C", "F"):
            raise ItemError(f"item {name!r}: order is {order!r}; hint: 'C' or 'F'")
        self.id: int | None = _id(id, name)
        self.name: str = _text(name)
        self.description: str = _text(description)
        self.order: str = order
        self.shape: Shape = tuple(None if size is None else _size(size, name) for size in shape)
        given = None if dtype is None else np.dtype(dtype)
        if given is not None and given.hasobject:
            raise ItemError(f"item {name!r}: dtype {given} holds Python objects; hint: specify the dtype of the numbers")
        self.format: Format = tuple((str(code), int(bits)) for code, bits in format or ())
        if given is not None and None in self.shape:
            same = format_of(given)
            if same is None or order == "F":
                raise ItemError(f"item {name!r}: dtype {given} with a variable dimension; hint: use a format, in C order")
            given, self.format = None, same
        elif order == "F" and given is None:
            raise ItemError(f"item {name!r}: a format is always in C order; hint: specify a dtype")
        #: The NumPy header, if the type is given by one.
        self.header: str | None = None if given is None else header_of(given, order, self.shape)
        self.codec: Codec = Codec(self.shape, self.format, given, order)

    @classmethod
    def _received(cls, raw: _native._RawDescriptor, swap: bool) -> Descriptor:
        made = cls.__new__(cls)
        made.id, made.name, made.description, shape, form, header = raw
        made.header, made.order, made.shape, made.format = header, "C", tuple(shape), tuple(form)
        dtype = None
        if header is not None:
            dtype, made.order, made.shape = read_header(header, swap)
            made.format = ()
        made.codec = Codec(made.shape, made.format, dtype, made.order)
        return made

    @classmethod
    def from_bytes(cls, packet: Buffer, bug_compat: int = 0) -> Descriptor:
        """Read a descriptor from item 5 of a heap."""
        return cls._received(_native.read_descriptor(packet, bug_compat), bool(bug_compat & BugCompat.SWAP_ENDIAN))

    def to_bytes(self, flavour: Flavour = Flavour()) -> bytes:
        """The packet that describes this item."""
        header = self.header
        if header is not None and flavour.bug_compat & BugCompat.SWAP_ENDIAN:
            header = header_of(self.codec.dtype.newbyteorder("S"), self.order, self.shape)
        return _native.write_descriptor(
            self._known_id(), self.name, self.description, list(self.shape), list(self.format), header,
            flavour.address_bits, flavour.bug_compat,
        )  # fmt: skip

    def _known_id(self) -> int:
        if self.id is None:
            raise ItemError(f"item {self.name!r} has no id; hint: add it to a group, or specify one")
        return self.id

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values (for packed fields: the smallest that holds them)."""
        return self.codec.dtype

    def _key(self) -> tuple[Any, ...]:
        return self.id, self.name, self.description, self.shape, self.format, self.header

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descriptor) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype.str!r}" if self.header is not None else f"format={list(self.format)}"
        number = "None" if self.id is None else hex(self.id)
        return f"{type(self).__name__}({number}, {self.name!r}, shape={self.shape}, {kind})"


class Item(Descriptor):
    """A descriptor with a value. `version` increases with every new value."""

    __slots__ = ("_value", "version")

    def __init__(
        self,
        id: int | None,
        name: str,
        description: str = "",
        shape: Sequence[int | None] = (),
        dtype: npt.DTypeLike | None = None,
        format: Sequence[tuple[str, int]] | None = None,
        order: str = "C",
        value: Any = None,
    ) -> None:
        super().__init__(id, name, description, shape, dtype, format, order)
        self._value = value
        self.version: int = int(value is not None)

    @classmethod
    def _received(cls, raw: _native._RawDescriptor, swap: bool) -> Item:
        made = super()._received(raw, swap)
        assert isinstance(made, cls)
        made._value, made.version = None, 0
        return made

    @property
    def value(self) -> Any:
        """The value: an array, a NumPy scalar (shape `()`), a string (characters in at most one dimension), or None."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value
        self.version += 1

    def changed(self) -> None:
        """Mark the value as changed in place, so that a generator sends it again."""
        self.version += 1

    def __hash__(self) -> int:
        return super().__hash__()


class UpdateError(ItemError):
    """Some items of a heap could not be read; `updated` has the others, `problems` the reasons."""

    def __init__(self, updated: dict[str, Item], problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.updated = updated
        self.problems = problems


class ItemGroup(Mapping[str | int, Item]):
    """Items by name, and by id: `group["power"]`, `group[0x1000]`."""

    def __init__(self) -> None:
        self._by_id: dict[int, Item] = {}
        self._by_name: dict[str, Item] = {}
        #: Descriptors as received, so that a repeated one costs only a comparison.
        self._raw: dict[int, _native._RawDescriptor] = {}

    def add_item(
        self,
        id: int | None = None,
        name: str = "",
        description: str = "",
        shape: Sequence[int | None] = (),
        dtype: npt.DTypeLike | None = None,
        format: Sequence[tuple[str, int]] | None = None,
        order: str = "C",
        value: Any = None,
    ) -> Item:
        """Add an item; without an id it gets the next free one from 0x1000. It replaces an item with the same id or name."""
        if id is None:
            id = next(n for n in range(FIRST_ID, FIRST_ID + len(self._by_id) + 1) if n not in self._by_id)
        item = Item(id, name, description, shape, dtype, format, order, value)
        self._add(item)
        return item

    def _add(self, item: Item) -> None:
        number = item._known_id()
        for old in (self._by_id.get(number), self._by_name.get(item.name)):
            if old is not None:
                # A generator that sent the old item must recognise the new one as different.
                item.version = max(item.version, old.version + 1)
                self._by_id.pop(old._known_id(), None)
                self._by_name.pop(old.name, None)
                self._raw.pop(old._known_id(), None)
        self._by_id[number] = self._by_name[item.name] = item

    def update(self, heap: _native.Heap, bug_compat: int = 0) -> dict[str, Item]:
        """Update descriptors and values from a heap. Returns the items with a new value, by name.

        Values view the heap's memory. An item without a descriptor is ignored (`heap.items()` has it). Items that do
        not match their descriptors, that begin beyond the heap, or whose descriptors are invalid raise `UpdateError` after
        all others are updated.
        """
        problems: list[str] = []
        if heap.outside:
            problems += [
                f"item {id:#x} of heap {heap.counter} begins at byte {at}, beyond its end at {heap.length}"
                for id, at in heap.items_outside()
            ]
        items = heap.raw_items()
        if any(item[0] == 5 for item in items):
            self._describe(heap, bug_compat, problems)
        updated: dict[str, Item] = {}
        known, payload, bits = self._by_id, heap.payload, heap.address_bits
        for number, immediate, value, start, stop in items:
            item = known.get(number)
            if item is None:
                continue
            try:
                if immediate:
                    item._value = item.codec.decode_immediate(value, bits)
                else:
                    item._value = item.codec.decode(payload, start, stop)
            except ValueError as error:
                problems.append(f"item {item.name!r} of heap {heap.counter}: {error}")
                continue
            item.version += 1
            updated[item.name] = item
        if problems:
            raise UpdateError(updated, problems)
        return updated

    def _describe(self, heap: _native.Heap, bug_compat: int, problems: list[str]) -> None:
        problems += [f"heap {heap.counter}: {error}" for error in heap.descriptor_errors(bug_compat)]
        for raw in heap.descriptors(bug_compat):
            if self._raw.get(raw[0]) == raw:
                continue
            try:
                item = Item._received(raw, bool(bug_compat & BugCompat.SWAP_ENDIAN))
            except ValueError as error:
                problems.append(f"descriptor of {raw[1]!r} in heap {heap.counter}: {error}")
                continue
            if self._by_id.get(raw[0]) != item:
                self._add(item)
            self._raw[raw[0]] = raw

    def __getitem__(self, key: str | int) -> Item:
        return self._by_id[key] if isinstance(key, int) else self._by_name[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_id or key in self._by_name

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_id)

    def ids(self) -> list[int]:
        """The ids of all items."""
        return list(self._by_id)

    def __repr__(self) -> str:
        return f"ItemGroup({list(self._by_name)})"
