"""Values of format-coded items: fields of any width, packed big-endian without gaps, the last byte filled with zeros.

    format [("u", 4), ("i", 12)], two elements          byte 0     1     2     3
                                                        u4|i12......  u4|i12......

A format whose fields are all whole NumPy types (`u8`, `f32`, `c8` ...) is such a type, big-endian: `numpy_type` gives
it, and values need no codec. Other formats are unpacked here into Python objects, bit by bit but for all elements at
once: integers have any width, a field of `b` is a `bool`, and of `c` a byte string of length one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Format = Sequence[tuple[str, int]]
Octets = npt.NDArray[np.uint8]

_WHOLE = {
    **{("u", bits): f">u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{("i", bits): f">i{bits // 8}" for bits in (8, 16, 32, 64)},
    ("f", 32): ">f4",
    ("f", 64): ">f8",
    ("c", 8): "S1",
    ("b", 8): "?",
}


def check(fields: Format) -> None:
    """Raise ValueError unless every field has a valid code and width, and the format has at least one bit."""
    for code, bits in fields:
        good = {"u": bits >= 0, "i": bits >= 0, "b": bits >= 0, "f": bits in (32, 64), "c": bits == 8}
        if not good.get(code, False):
            raise ValueError(f"invalid field in a format: {code}{bits}")
    if width(fields) == 0:
        raise ValueError("a format must have at least one bit")


def width(fields: Format) -> int:
    """Bits of one element."""
    return sum(bits for _, bits in fields)


def numpy_type(fields: Format) -> np.dtype[Any] | None:
    """The big-endian NumPy type with the memory layout of this format, or None if there is none."""
    try:
        types = [_WHOLE[field] for field in fields]
    except KeyError:
        return None
    if len(types) == 1:
        return np.dtype(types[0])
    return np.dtype([(f"f{n}", kind) for n, kind in enumerate(types)])


def unpacked_type(fields: Format) -> np.dtype[Any]:
    """The NumPy type of unpacked elements: objects, except for fields that are whole NumPy types."""
    if len(fields) == 1:
        return np.dtype(object)
    return np.dtype([(f"f{n}", _WHOLE.get(field, object)) for n, field in enumerate(fields)])


def unpack(fields: Format, count: int, data: Octets) -> npt.NDArray[Any]:
    """The first `count` elements of `data` as a flat array of `unpacked_type`."""
    element = width(fields)
    needed = (element * count + 7) // 8
    octets = data[:needed]
    bits = np.unpackbits(octets)[: element * count].reshape(count, element)
    columns, at = [], 0
    for code, size in fields:
        columns.append(_column(code, bits[:, at : at + size]))
        at += size
    out = np.empty(count, unpacked_type(fields))
    if len(columns) == 1:
        out[:] = columns[0]
    else:
        for n, column in enumerate(columns):
            out[f"f{n}"] = column
    return out


def _column(code: str, bits: Octets) -> list[Any]:
    """One field of every element, from its bits (elements, width)."""
    size = bits.shape[1]
    if code == "c":
        return [bytes(row) for row in np.packbits(bits, axis=1)]
    if code == "f":
        return list(np.packbits(bits, axis=1).view(f">f{size // 8}").ravel().tolist())
    if code == "b":
        return [bool(row.any()) for row in bits]
    octets = _right_aligned(bits)
    if size <= 64:
        values = octets.view(">u8").ravel().tolist()
    else:
        values = [int.from_bytes(row, "big") for row in octets]
    if code == "i" and size:
        half, full = 1 << (size - 1), 1 << size
        values = [value - full if value >= half else value for value in values]
    return values


def _right_aligned(bits: Octets) -> Octets:
    """Bits of each element as bytes, with zeros before them, at least eight."""
    count, size = bits.shape
    octets = max(8, (size + 7) // 8)
    padded = np.zeros((count, octets * 8), np.uint8)
    padded[:, octets * 8 - size :] = bits
    return np.packbits(padded, axis=1)


def pack(fields: Format, elements: Sequence[Any]) -> bytes:
    """The bytes of a flat sequence of elements: single values, or tuples if the format has several fields."""
    if len(fields) == 1:
        rows = [(element,) for element in elements]
    else:
        rows = [tuple(element) for element in elements]
        for row in rows:
            if len(row) != len(fields):
                raise ValueError(f"an element has {len(row)} fields, but its format {len(fields)}")
    if not rows:
        return b""
    parts = [_bits(code, size, [row[n] for row in rows]) for n, (code, size) in enumerate(fields)]
    return np.packbits(np.concatenate(parts, axis=1).ravel()).tobytes()


def _bits(code: str, size: int, values: Sequence[Any]) -> Octets:
    """One field of every element as bits (elements, width). A value outside the field's range raises ValueError."""
    if code == "f":
        octets = np.array(values, f">f{size // 8}").view(np.uint8)
    elif code == "c":
        octets = np.frombuffer(b"".join(map(_octet, values)), np.uint8)
    else:
        low, high = {"u": (0, 1 << size), "i": (-1 << size >> 1, 1 << size >> 1), "b": (0, 2)}[code]
        integers = [bool(value) if code == "b" else int(value) for value in values]
        for value in integers:
            if not low <= value < max(high, 1):
                raise ValueError(f"{value} is outside the range of {code}{size}")
        width, mask = (size + 7) // 8, (1 << size) - 1
        raw = b"".join((value & mask).to_bytes(width, "big") for value in integers)
        octets = np.frombuffer(raw, np.uint8)
    bits = np.unpackbits(octets).reshape(len(values), -1)
    return bits[:, bits.shape[1] - size :]


def _octet(value: Any) -> bytes:
    octet = value.encode("ascii") if isinstance(value, str) else bytes(value)
    if len(octet) != 1:
        raise ValueError(f"{value!r} is not a single character")
    return octet
