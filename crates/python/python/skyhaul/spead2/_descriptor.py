"""Descriptors of items: id, name, type and shape; and their form on the wire.

    Descriptor (dtype, names as text)  ◀─ from_raw / to_raw ─▶  RawDescriptor (bytes, as on the wire)
    RawDescriptor                      ◀─ read_packet / write_packet ─▶  the payload of item 0x05: a nested packet

The format of an item is either a NumPy type, sent as the header of a .npy file, or a list of bit fields ("format").
At most one dimension may be None (variable), with bit fields only.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from . import _codec
from . import _flavour as spead
from ._codec import Format
from ._flavour import Flavour
from ._settings import whole

#: A NumPy header longer than this is rejected before it is parsed.
_LONGEST_HEADER = 1 << 16


class RawDescriptor:
    """A descriptor as on the wire: text undecoded, the NumPy header unparsed (empty if there is none)."""

    def __init__(self) -> None:
        self.id = 0
        self.name = b""
        self.description = b""
        self.numpy_header = b""
        self.format: list[tuple[str, int]] = []
        self.shape: list[int | None] = []


class Descriptor:
    """Number, name, description, shape and type of an item.

    Exactly one of `dtype` (anything NumPy accepts, without objects) and `format` (a list of (code, bits)) is given.
    `order` is "C" or "F", the order of the elements of a NumPy item. ValueError for a descriptor that cannot be sent.
    """

    def __init__(
        self,
        id: int,
        name: str,
        description: str,
        shape: Sequence[int | None],
        dtype: npt.DTypeLike | None = None,
        order: str = "C",
        format: Format | None = None,
    ) -> None:
        shape = tuple(None if size is None else _size(size) for size in shape)
        if not 0 <= whole(id) < 1 << 63:
            raise ValueError(f"item {id}: no flavour has this id; hint: 0x1000 or larger")
        for text in (name, description):
            if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError(f"{text!r} contains a lone surrogate; hint: use ASCII letters")
        if (dtype is None) == (format is None):
            raise ValueError("specify either a dtype or a format")
        if order not in ("C", "F"):
            raise ValueError("the order must be 'C' or 'F'")
        unknown = sum(size is None for size in shape)
        if unknown > 1:
            raise ValueError("at most one dimension may be None")
        fields = [] if format is None else [(str(code), int(bits)) for code, bits in format]
        layout: np.dtype[Any] | None
        if dtype is not None:
            layout = np.dtype(dtype)
            if layout.hasobject:
                raise ValueError("a type that holds Python objects cannot be sent")
            if layout.itemsize == 0:
                raise ValueError("a type without bytes cannot be sent")
            if unknown:
                raise ValueError("an item with a dtype has known dimensions only")
        else:
            if order != "C":
                raise ValueError("an item with a format has order 'C'")
            _codec.check(fields)
            layout = _codec.numpy_type(fields)
        # The NumPy type of values in memory, if there is one; and the bit fields, if there are any.
        self._layout, self._fields = layout, fields
        self.id = id
        self.name = name
        self.description = description
        self.shape = shape
        self.dtype: np.dtype[Any] | None = None if dtype is None else layout
        self.order: Literal["C", "F"] = "F" if order == "F" else "C"
        self.format: list[tuple[str, int]] | None = None if format is None else fields

    @property
    def itemsize_bits(self) -> int:
        """Bits of one element."""
        return self.dtype.itemsize * 8 if self.dtype is not None else _codec.width(self._fields)

    def is_variable_size(self) -> bool:
        """Whether a dimension is None."""
        return any(size is None for size in self.shape)

    def allow_immediate(self) -> bool:
        """Whether small values may be sent as immediate items."""
        return not self.is_variable_size() and self.itemsize_bits % 8 == 0

    def dynamic_shape(self, max_elements: int) -> Sequence[int]:
        """The shape of a value of at most `max_elements` elements: a list in which None has become as many as fit, or `shape`."""
        known = 1
        for size in self.shape:
            known *= 1 if size is None else size
        fits = max_elements // known if known else 0
        shape = [fits if size is None else size for size in self.shape]
        return shape if self.is_variable_size() else tuple(shape)

    def compatible_shape(self, shape: Sequence[int]) -> bool:
        """Whether a value of this shape may be assigned."""
        return len(shape) == len(self.shape) and all(
            mine is None or mine == size for mine, size in zip(self.shape, shape)
        )

    def _same(self, other: Descriptor) -> bool:
        """Whether two descriptors are equal."""
        mine = (self.id, self.name, self.description, self.shape, self.dtype, self.order, self.format)
        return mine == (other.id, other.name, other.description, other.shape, other.dtype, other.order, other.format)

    @classmethod
    def from_raw(cls, raw_descriptor: RawDescriptor, flavour: Flavour) -> Self:
        """From a descriptor on the wire. ValueError if it is malformed, UnicodeDecodeError if it is not ASCII."""
        raw = raw_descriptor
        name, description = raw.name.decode("ascii"), raw.description.decode("ascii")
        if raw.numpy_header:
            shape, order, dtype = _parse_header(raw.numpy_header)
            if flavour.bug_compat & spead.BUG_COMPAT_SWAP_ENDIAN:
                dtype = dtype.newbyteorder()
            return cls(raw.id, name, description, shape, dtype=dtype, order=order)
        return cls(raw.id, name, description, raw.shape, format=raw.format)

    def to_raw(self, flavour: Flavour) -> RawDescriptor:
        """As a descriptor on the wire. UnicodeEncodeError if a text is not ASCII."""
        raw = RawDescriptor()
        raw.id = self.id
        raw.name, raw.description = self.name.encode("ascii"), self.description.encode("ascii")
        raw.shape = list(self.shape)
        if self.dtype is not None:
            dtype = self.dtype
            if flavour.bug_compat & spead.BUG_COMPAT_SWAP_ENDIAN:
                dtype = dtype.newbyteorder()
            header = {
                "descr": np.lib.format.dtype_to_descr(dtype),
                "fortran_order": self.order == "F",
                "shape": tuple(int(size or 0) for size in self.shape),
            }
            raw.numpy_header = repr(header).encode("ascii")
        else:
            raw.format = list(self._fields)
        return raw


def _size(size: int) -> int:
    number = whole(size)
    if number < 0:
        raise ValueError(f"a dimension of {number} elements; hint: 0 or more, or None if variable")
    return number


def _parse_header(header: bytes) -> tuple[tuple[int, ...], str, np.dtype[Any]]:
    """(shape, order, dtype) of the header of a .npy file. ValueError for anything else."""
    if len(header) > _LONGEST_HEADER:
        raise ValueError(f"a NumPy header of {len(header)} bytes")
    try:
        parsed = ast.literal_eval(header.decode("ascii"))
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"a NumPy header that cannot be read: {error}") from error
    if not isinstance(parsed, dict) or set(parsed) != {"descr", "fortran_order", "shape"}:
        raise ValueError("a NumPy header is a dictionary of descr, fortran_order and shape")
    shape, fortran = parsed["shape"], parsed["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"a NumPy header with the shape {shape!r}")
    if not isinstance(fortran, bool):
        raise ValueError(f"a NumPy header with the order {fortran!r}")
    descr = parsed["descr"]
    if not isinstance(descr, (str, list)):
        raise ValueError(f"a NumPy header with the type {descr!r}")
    try:
        dtype = np.lib.format.descr_to_dtype(descr)  # type: ignore[arg-type]
    except Exception as error:  # NumPy raises what its parts raise
        raise ValueError(f"a NumPy header with the type {descr!r}: {error}") from error
    return shape, "F" if fortran else "C", dtype


def _entry_sizes(flavour: Flavour) -> tuple[int, int]:
    """Bytes of a format entry after its code, and of a shape entry after its flag."""
    if flavour.bug_compat & spead.BUG_COMPAT_DESCRIPTOR_WIDTHS:
        return 3, 7
    address = flavour.heap_address_bits // 8
    return 8 - address, address


def _variable_flag(flavour: Flavour) -> int:
    return 2 if flavour.bug_compat & spead.BUG_COMPAT_SHAPE_BIT_1 else 1


def write_packet(raw: RawDescriptor, flavour: Flavour) -> bytes:
    """The nested packet of a descriptor: the payload of item 0x05 (reference 1.4)."""
    format_bytes, shape_bytes = _entry_sizes(flavour)
    fields = b"".join(code.encode("ascii") + bits.to_bytes(format_bytes, "big") for code, bits in raw.format)
    variable = bytes([_variable_flag(flavour)])
    shape = b"".join(
        (variable if size is None else b"\0") + (size or 0).to_bytes(shape_bytes, "big") for size in raw.shape
    )
    parts = [
        (spead.DESCRIPTOR_NAME_ID, raw.name),
        (spead.DESCRIPTOR_DESCRIPTION_ID, raw.description),
        (spead.DESCRIPTOR_FORMAT_ID, fields),
        (spead.DESCRIPTOR_SHAPE_ID, shape),
    ]
    if raw.numpy_header:
        parts.append((spead.DESCRIPTOR_DTYPE_ID, raw.numpy_header))
    payload = b"".join(content for _, content in parts)
    shift = flavour.heap_address_bits
    mode = 1 << 63
    pointers = [
        mode | spead.HEAP_CNT_ID << shift | 1,
        mode | spead.HEAP_LENGTH_ID << shift | len(payload),
        mode | spead.PAYLOAD_OFFSET_ID << shift,
        mode | spead.PAYLOAD_LENGTH_ID << shift | len(payload),
        mode | spead.DESCRIPTOR_ID_ID << shift | raw.id,
    ]
    at = 0
    for id, content in parts:
        pointers.append(id << shift | at)
        at += len(content)
    head = struct.pack(">BBBBHH", 0x53, 4, 8 - shift // 8, shift // 8, 0, len(pointers))
    return head + struct.pack(f">{len(pointers)}Q", *pointers) + payload


def read_packet(packet: bytes, bug_compat: int) -> RawDescriptor:
    """A descriptor from its nested packet (bytes). ValueError if it is invalid."""
    items = _nested_items(packet)
    raw = RawDescriptor()
    address_bits = packet[3] * 8
    flavour = spead.Flavour(4, 64, address_bits, bug_compat)
    raw.id = int.from_bytes(items.get(spead.DESCRIPTOR_ID_ID, b""), "big")
    raw.name = items.get(spead.DESCRIPTOR_NAME_ID, b"")
    raw.description = items.get(spead.DESCRIPTOR_DESCRIPTION_ID, b"")
    raw.numpy_header = items.get(spead.DESCRIPTOR_DTYPE_ID, b"")
    format_bytes, shape_bytes = _entry_sizes(flavour)
    if raw.numpy_header:
        # It states type and shape; what else says so is ignored, as in spead2.
        return raw
    for entry in _entries(items.get(spead.DESCRIPTOR_FORMAT_ID, b""), 1 + format_bytes):
        raw.format.append((chr(entry[0]), int.from_bytes(entry[1:], "big")))
    for entry in _entries(items.get(spead.DESCRIPTOR_SHAPE_ID, b""), 1 + shape_bytes):
        variable = entry[0] & _variable_flag(flavour)
        raw.shape.append(None if variable else int.from_bytes(entry[1:], "big"))
    return raw


def _entries(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content) - size + 1, size)]


def _nested_items(packet: bytes) -> dict[int, bytes]:
    """The items of a nested packet by id: addressed ones as they are, immediate ones as their address bytes."""
    if len(packet) < 8 or packet[0] != 0x53 or packet[1] != 4 or packet[2] + packet[3] != 8:
        raise ValueError("a descriptor that is not a SPEAD packet")
    shift = packet[3] * 8
    count = int.from_bytes(packet[6:8], "big")
    payload = packet[8 + 8 * count :]
    if len(packet) < 8 + 8 * count:
        raise ValueError("a descriptor with fewer pointers than its header states")
    items, addressed = {}, []
    mask = (1 << shift) - 1
    for pointer in struct.unpack_from(f">{count}Q", packet, 8):
        id, value = (pointer & ~(1 << 63)) >> shift, pointer & mask
        if pointer >> 63:
            items[id] = value.to_bytes(shift // 8, "big")
        else:
            addressed.append((value, id))
    addressed.sort(key=lambda entry: entry[0])
    for n, (start, id) in enumerate(addressed):
        end = addressed[n + 1][0] if n + 1 < len(addressed) else len(payload)
        if start > len(payload):
            raise ValueError("a descriptor with an item beyond its end")
        if end > start:
            items[id] = payload[start:end]
    return items
