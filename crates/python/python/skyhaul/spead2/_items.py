"""Items (a descriptor and its current value) and groups of them, updated from received heaps.

    heap ─▶ ItemGroup.update ─▶ {name: Item}, each with its new `value` and a higher `version`

Values are NumPy arrays that share the heap's memory where type and byte order allow it, NumPy scalars for shape (),
`str` for one-dimensional format [("c", 8)], and objects for bit fields that NumPy has no type for.
"""

from __future__ import annotations

import logging
import math
from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _codec
from . import _flavour as spead
from ._codec import Format
from ._descriptor import Descriptor

if TYPE_CHECKING:
    from .recv._heaps import Heap, RawItem

_logger = logging.getLogger("spead2")

#: First id assigned to items without one.
_FIRST_FREE_ID = 0x1000


class Item(Descriptor):
    """A descriptor with a value. `version` increases with each value: compare it to detect changes."""

    def __init__(
        self,
        id: int,
        name: str,
        description: str,
        shape: Sequence[int | None],
        dtype: npt.DTypeLike | None = None,
        order: str = "C",
        format: Format | None = None,
        value: Any = None,
    ) -> None:
        super().__init__(id, name, description, shape, dtype, order, format)
        self.version: int = 1
        self._value = value
        #: Whether its values are arrays of fixed size, directly in the bytes of a heap.
        self._is_plain = (
            self._layout is not None and None not in self.shape and 0 not in self.shape and not self._is_text()
        )
        # By requested byte order: elements, bytes, and the target type, of values that need no unpacking.
        self._plain: dict[str, tuple[int, int, np.dtype[Any] | None]] = {}

    @property
    def value(self) -> Any:
        """The value last assigned or received, None before. ValueError if None is assigned."""
        return self._value

    @value.setter
    def value(self, new_value: Any) -> None:
        if new_value is None:
            raise ValueError("an item cannot be set to None")
        self._value = new_value
        self.version += 1

    def _is_text(self) -> bool:
        return self._fields == [("c", 8)] and len(self.shape) == 1

    def set_from_raw(self, raw_item: RawItem, new_order: str = "=") -> None:
        """Set the value from a received item. `new_order` is a NumPy byte order; "|" keeps the sent one.

        ValueError if there are too few bytes; UnicodeDecodeError if a text is not ASCII.
        """
        if raw_item.is_immediate and self._set_immediate(raw_item.immediate_value):
            return
        octets = np.frombuffer(raw_item, np.uint8)
        shape = self.dynamic_shape(octets.size * 8 // self.itemsize_bits)
        count = 1
        for size in shape:
            count *= size
        needed = (count * self.itemsize_bits + 7) // 8
        if needed > octets.size:
            raise ValueError(f"item {self.name} has {octets.size} bytes, but its shape {shape} needs {needed}")
        # An immediate value is right-aligned in its address bytes, an addressed item left-aligned.
        octets = octets[octets.size - needed :] if raw_item.is_immediate else octets[:needed]
        if self._layout is None:
            self.value = self._from_flat(_codec.unpack(self._fields, count, octets), shape)
        elif self._is_text():
            self.value = octets.tobytes().decode("ascii")
        else:
            flat = octets.view(self._layout) if needed else np.empty(0, self._layout)
            value = flat.reshape(shape, order=self.order)
            wanted = value.dtype.newbyteorder(new_order)
            if wanted != value.dtype:
                value = value.astype(wanted)
            self.value = value if shape else value[()]

    def _set_plain(self, payload: Any, start: int, stop: int, new_order: str) -> None:
        """As `set_from_raw`, for plain values, from bytes of a payload."""
        assert self._layout is not None
        if new_order not in self._plain:
            count, wanted = math.prod(size or 0 for size in self.shape), self._layout.newbyteorder(new_order)  # type: ignore[arg-type]
            self._plain[new_order] = count, count * self._layout.itemsize, None if wanted == self._layout else wanted
        count, needed, wanted_type = self._plain[new_order]
        if stop - start < needed:
            raise ValueError(f"item {self.name} has {stop - start} bytes, its shape {self.shape} needs {needed}")
        value = np.frombuffer(payload, self._layout, count, start)
        if len(self.shape) != 1:
            value = value.reshape(self.shape, order=self.order)  # type: ignore[arg-type]
        if wanted_type is not None:
            value = value.astype(wanted_type)
        self._value = value if self.shape else value[()]
        self.version += 1

    def _set_immediate(self, value: int) -> bool:
        """As `set_from_raw`, from an immediate value; False if it must be unpacked."""
        if self.shape or len(self._fields) != 1:
            return False
        taken = self._from_immediate(value)
        if taken is not None:
            self.value = taken
        return taken is not None

    def _from_immediate(self, value: int) -> Any:
        """A single field directly from its pointer (the usual timestamp); None if it is of another kind."""
        code, bits = self._fields[0]
        if code not in "ui" or bits % 8:
            return None
        value &= (1 << bits) - 1
        if code == "i" and value >> (bits - 1):
            value -= 1 << bits
        return value if self._layout is None else self._layout.newbyteorder("=").type(value)

    @staticmethod
    def _from_flat(flat: npt.NDArray[Any], shape: Sequence[int]) -> Any:
        return flat.reshape(shape) if shape else flat[0]

    def to_buffer(self) -> Any:
        """The value as bytes on the wire: an object with the buffer protocol, the value's own memory if possible.

        ValueError if there is no value, or one of another shape; UnicodeEncodeError if a text is not ASCII.
        """
        value = self._value
        if value is None:
            raise ValueError(f"item {self.name} has no value to send")
        if self._layout is None:
            return self._packed(value)
        if self._is_text() and isinstance(value, (str, bytes)):
            octets = value.encode("ascii") if isinstance(value, str) else value
            self._check_shape((len(octets),))
            return octets
        if isinstance(value, str) and self._layout.kind == "S":
            value = value.encode("ascii")
        value = np.asarray(value, self._layout, order=self.order)
        self._check_shape(value.shape)
        # A view as plain bytes: types like datetime64 do not support the buffer protocol.
        flat = value.ravel(order=self.order)
        return flat.view(np.uint8) if flat.size else b""

    def _packed(self, value: Any) -> bytes:
        if self._is_text() and isinstance(value, (str, bytes)):
            value = list(value) if isinstance(value, str) else [bytes([octet]) for octet in value]
        holder = np.array(value, _codec.unpacked_type(self._fields))
        self._check_shape(holder.shape)
        return _codec.pack(self._fields, holder.ravel().tolist())

    def _check_shape(self, shape: Sequence[int]) -> None:
        if not self.compatible_shape(shape):
            raise ValueError(f"item {self.name} has a value of shape {shape}, not {self.shape}")

    def _live_immediate(self) -> npt.NDArray[Any] | None:
        """The value's memory if it is a big-endian u8 in an array of shape (): its content at the time of sending is sent."""
        value = self._value
        if isinstance(value, np.ndarray) and value.shape == () and value.dtype == np.dtype(">u8"):
            if len(self._fields) == 1 and self._fields[0][0] == "u" and not self.shape:
                return value
        return None


class ItemGroup:
    """Items by id and by name; iterates like a dictionary of names."""

    def __init__(self) -> None:
        self._by_id: dict[int, Item] = {}
        self._by_name: dict[str, Item] = {}
        self._next_id = _FIRST_FREE_ID

    def add_item(
        self,
        id: int | None,
        name: str,
        description: str,
        shape: Sequence[int | None],
        dtype: npt.DTypeLike | None = None,
        order: str = "C",
        format: Format | None = None,
        value: Any = None,
    ) -> Item:
        """Add or change an item, and return it; the id None takes the next free one.

        An identical item is kept, with its value if none is given. Other items with the same id or name are removed.
        """
        if id is None:
            while self._next_id in self._by_id:
                self._next_id += 1
            id = self._next_id
            self._next_id += 1
        return self._put(Item(id, name, description, shape, dtype, order, format, value=value))

    def _put(self, item: Item) -> Item:
        same_id, same_name = self._by_id.get(item.id), self._by_name.get(item.name)
        if same_id is not None and same_id is same_name and same_id._same(item):
            if item.value is not None:
                same_id.value = item.value
            return same_id
        if same_id is not None or same_name is not None:
            _logger.info("item %#x %r replaces another with this id or name", item.id, item.name)
        for old in (same_id, same_name):
            if old is not None:
                # The version must show that this is another item.
                item.version = max(item.version, old.version + 1)
                self._by_id.pop(old.id, None)
                self._by_name.pop(old.name, None)
        self._by_id[item.id] = item
        self._by_name[item.name] = item
        return item

    def __getitem__(self, key: int | str) -> Item:
        return self._by_name[key] if isinstance(key, str) else self._by_id[key]

    def __contains__(self, key: int | str) -> bool:
        return key in (self._by_name if isinstance(key, str) else self._by_id)

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def keys(self) -> KeysView[str]:
        return self._by_name.keys()

    def ids(self) -> KeysView[int]:
        return self._by_id.keys()

    def values(self) -> ValuesView[Item]:
        return self._by_name.values()

    def items(self) -> ItemsView[str, Item]:
        return self._by_name.items()

    def update(self, heap: Heap, new_order: str = "=") -> dict[str, Item]:
        """Update descriptors and values from a heap. Returns {name: Item} of the items with a new value.

        ValueError for an invalid descriptor or value; the items before it in the heap are updated.
        """
        items = heap._native.raw_items()
        for described in heap._described(items):
            self._put(Item.from_raw(described, heap.flavour))
        updated = {}
        payload = heap._native.payload
        for id, immediate, number, start, stop in items:
            if id <= spead.STREAM_CTRL_ID:
                continue
            item = self._by_id.get(id)
            if item is None:
                _logger.warning("item %#x has no descriptor: ignored", id)
                continue
            if not immediate and item._is_plain:
                item._set_plain(payload, start, stop, new_order)
            elif not (immediate and item._set_immediate(number)):
                item.set_from_raw(heap._raw_item(id, immediate, number, start, stop), new_order)
            # The setting of the value counts once, and the update once more, as in spead2.
            item.version += 1
            updated[item.name] = item
        return updated
