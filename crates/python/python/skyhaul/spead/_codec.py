"""Conversion between the bytes of an item and its value.

    descriptor ─▶ Codec ─┬─ whole bytes: a NumPy dtype; the value is a view of the heap's memory
                         └─ other widths (u12, a 1-bit flag and a 7-bit count …): unpacked into fields of whole bytes

A descriptor gives either a NumPy header, which has its own byte order, or a format: fields of any number of bits, always
big-endian, with padding only at the end. Limits: fields of 1 to 64 bits; no references to other items.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native

Shape = tuple[int | None, ...]
Format = tuple[tuple[str, int], ...]

_LONGEST_HEADER = 65536
_HINT = "hint: compare the sender's descriptor with what it sends"


class ItemError(ValueError):
    """An item whose bytes do not match its descriptor, or an invalid or unsupported descriptor."""


def header_of(dtype: np.dtype[Any], order: str, shape: Shape) -> str:
    """The header that describes an array in a descriptor: the literal of a `.npy` file."""
    descr = np.lib.format.dtype_to_descr(dtype)
    return str({"descr": descr, "fortran_order": order == "F", "shape": tuple(shape)})


def read_header(header: str, swap: bool) -> tuple[np.dtype[Any], str, Shape]:
    """dtype, order and shape of such a header. Nothing in it is executed."""
    if len(header) > _LONGEST_HEADER:
        raise ItemError(f"the NumPy header has {len(header)} characters; {_HINT}")
    try:
        fields = ast.literal_eval(header)
        if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
            raise ValueError("not exactly the keys descr, fortran_order and shape")
        dtype = np.lib.format.descr_to_dtype(fields["descr"])
        shape = fields["shape"]
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError("the shape is not a tuple of sizes")
        if not isinstance(fields["fortran_order"], bool):
            raise ValueError("fortran_order is neither True nor False")
    except (ValueError, TypeError, SyntaxError, KeyError, IndexError, MemoryError, RecursionError) as error:
        raise ItemError(f"NumPy header {header[:80]!r}: {error}; {_HINT}") from None
    if dtype.hasobject:
        raise ItemError(f"NumPy header {header[:80]!r}: Python objects cannot be sent; {_HINT}")
    if swap:
        dtype = dtype.newbyteorder("S")
    return dtype, "F" if fields["fortran_order"] else "C", shape


def format_of(dtype: np.dtype[Any]) -> Format | None:
    """The format with the same values as a dtype, if there is one."""
    if dtype.names is not None:
        fields = [format_of(dtype[name]) for name in dtype.names]
        packed = sum(dtype[name].itemsize for name in dtype.names) == dtype.itemsize
        return tuple(f for field in fields for f in field or ()) if packed and all(fields) else None
    if dtype.shape:
        return None
    code = {"u": "u", "i": "i", "f": "f", "b": "b", "S": "c"}.get(dtype.kind)
    bits = dtype.itemsize * 8
    if code is None or (code == "f" and bits not in (32, 64)) or (code == "c" and bits != 8):
        return None
    return ((code, bits),)


def _byte_dtype(code: str, bits: int) -> np.dtype[Any] | None:
    """The big-endian dtype of one field, if NumPy has it."""
    if code in ("u", "i") and bits in (8, 16, 32, 64):
        return np.dtype(f">{code}{bits // 8}")
    if code == "f" and bits in (32, 64):
        return np.dtype(f">f{bits // 8}")
    if code == "b" and bits == 8:
        return np.dtype("?")
    return np.dtype("S1") if code == "c" and bits == 8 else None


def _value_dtype(code: str, bits: int) -> np.dtype[Any]:
    """The type of an unpacked field: the smallest native dtype that holds it."""
    whole = _byte_dtype(code, bits)
    if whole is not None:
        return whole.newbyteorder("=")
    if code not in ("u", "i", "b") or not 1 <= bits <= 64:
        raise ItemError(f"format field ({code!r}, {bits}) is invalid; hint: u, i or b of 1 to 64 bits, f32, f64, c8")
    if code == "b":
        return np.dtype("?")
    return np.dtype(f"={code}{next(n for n in (1, 2, 4, 8) if n * 8 >= bits)}")


def _joined(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    return dtypes[0] if len(dtypes) == 1 else np.dtype([(f"f{n}", dtype) for n, dtype in enumerate(dtypes)])


def _check_kept(value: Any, array: npt.NDArray[Any]) -> None:
    """ItemError if the conversion of a value to another type has changed it: NumPy wraps integers, and cuts fractions, imaginary
    parts and strings off without an error. Floats may be rounded."""
    wanted = array.dtype
    # NumPy itself refuses numbers of Python that are too large.
    if wanted.kind not in "iufSU" or getattr(value, "dtype", None) == wanted or type(value) in (int, bool, str):
        return
    given = np.asarray(value)
    if given.dtype.kind == "c":
        changed: Any = given.imag != 0
    elif wanted.kind in "iu" and given.dtype.kind in "iuf" and not np.can_cast(given.dtype, wanted):
        # What is no number is none of these numbers.
        changed = array != given
    elif wanted.kind == given.dtype.kind and wanted.kind in "SU" and given.dtype.itemsize > wanted.itemsize:
        changed = array != given
    else:
        return
    if np.any(changed):
        first = given[changed].flat[0] if given.shape else given[()]
        raise ItemError(f"{first} does not fit into {wanted}; hint: convert the value, or use a wider type")


class Codec:
    """Reads and writes the values of one descriptor."""

    __slots__ = ("bits", "count", "dtype", "format", "integer", "order", "shape", "text", "wire_bits")

    def __init__(self, shape: Shape, format: Format, dtype: np.dtype[Any] | None, order: str) -> None:
        self.shape: Shape = shape
        self.order: str = order
        self.format: Format = () if dtype is not None else format
        #: Bits of an element, if fields must be unpacked.
        self.bits: int | None = None
        self.text: bool = False
        if dtype is None:
            if not format:
                raise ItemError(f"neither a format nor a NumPy header; {_HINT}")
            whole = [_byte_dtype(code, bits) for code, bits in format]
            if None in whole:
                self.bits = sum(bits for _, bits in format)
                dtype = _joined([_value_dtype(code, bits) for code, bits in format])
            else:
                dtype = _joined([one for one in whole if one is not None])
            self.text = format == (("c", 8),) and len(shape) <= 1
        if dtype.itemsize == 0:
            raise ItemError(f"dtype {dtype} has no bytes; {_HINT}")
        if sum(n is None for n in shape) > 1:
            raise ItemError(f"shape {shape} has several variable dimensions; hint: at most one can be found from the bytes")
        self.dtype: np.dtype[Any] = dtype
        #: Bits of one element on the wire.
        self.wire_bits: int = dtype.itemsize * 8 if self.bits is None else self.bits
        #: Elements, if the shape is fixed.
        self.count: int | None = None if None in shape else math.prod(n or 0 for n in shape)
        #: For a single big-endian integer, the usual immediate: its type, its mask, and its sign bit (0: unsigned).
        self.integer: tuple[type[np.generic], int, int] | None = None
        if not shape and dtype.kind in "ui" and (dtype.itemsize == 1 or self.bits or dtype.str[0] == ">"):
            bits = self.wire_bits
            self.integer = dtype.type, (1 << bits) - 1, 1 << (bits - 1) if dtype.kind == "i" else 0

    @property
    def fixed_bytes(self) -> int | None:
        """Bytes of a value, if the shape is fixed."""
        return None if self.count is None else -(-self.count * self.wire_bits // 8)

    # ---- reading

    def decode(self, payload: Any, start: int, stop: int) -> Any:
        """The value in bytes `start` to `stop` of a heap: a view if fields are whole bytes, else a new array."""
        count = self.count
        if count is None:
            count = self._variable_count(stop - start)
        elif -(-count * self.wire_bits // 8) > stop - start:
            raise ItemError(f"{stop - start} bytes for {count} elements of {self.wire_bits} bits; {_HINT}")
        if self.bits is None:
            flat = np.frombuffer(payload, self.dtype, count, start)
        else:
            part = memoryview(payload).cast("B")[start:stop]
            flat = self._unpack(part, count)
        return self._shaped(flat, count)

    def decode_immediate(self, value: int, address_bits: int) -> Any:
        """The value of an immediate item: its bytes are the last of the pointer's."""
        if self.integer is not None and self.wire_bits <= address_bits:
            kind, mask, sign = self.integer
            value &= mask
            return kind(value - 2 * sign if value & sign else value)
        width = address_bits // 8
        fixed = self.fixed_bytes
        if fixed is not None and fixed > width:
            raise ItemError(f"an immediate value has {width} bytes, but its descriptor {fixed}; {_HINT}")
        return self.decode(value.to_bytes(width, "big"), 0 if fixed is None else width - fixed, width)

    def _variable_count(self, available: int) -> int:
        known = math.prod(n for n in self.shape if n is not None)
        return available * 8 // (self.wire_bits * known) * known if known else 0

    def _shaped(self, flat: npt.NDArray[Any], count: int) -> Any:
        if self.text:
            return str(flat.tobytes(), "ascii")
        shape = self.shape
        if not shape:
            return flat[0]
        if len(shape) == 1:
            return flat
        if self.count is None:
            known = math.prod(n for n in shape if n is not None)
            shape = tuple(n if n is not None else (count // known if known else 0) for n in shape)
        return flat.reshape(shape, order="F" if self.order == "F" else "C")

    def _unpack(self, part: memoryview, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(_native.unpack_bits(part, list(self.format), count), self.dtype)

    # ---- writing

    def encode(self, value: Any) -> npt.NDArray[Any]:
        """An array whose bytes, in C order, are sent; the value's own memory if possible."""
        if self.text and isinstance(value, str):
            value = np.frombuffer(value.encode("ascii"), "S1")
            if not self.shape:
                value = value.reshape(())
        try:
            array = np.asarray(value, self.dtype)
        except OverflowError as error:
            raise ItemError(f"a value for {self.dtype}: {error}; hint: use a wider type") from None
        _check_kept(value, array)
        if len(array.shape) != len(self.shape) or any(
            want is not None and want != have for want, have in zip(self.shape, array.shape, strict=True)
        ):
            raise ItemError(f"the value has shape {array.shape}, but the item {self.shape}; hint: reshape the value")
        if self.bits is not None:
            return np.frombuffer(_native.pack_bits(np.ascontiguousarray(array), list(self.format), array.size), np.uint8)
        # In Fortran order the bytes are those of the transposed array in C order.
        octets = np.ascontiguousarray(array.T if self.order == "F" else array)
        # Arrays of dates do not support the buffer protocol.
        return octets.view("i8") if octets.dtype.kind in "mM" else octets

    def immediate(self, encoded: npt.NDArray[Any], address_bits: int) -> int | None:
        """The value as an integer for an immediate item, if it fits: a fixed shape of whole bytes."""
        if self.count is None or self.count * self.wire_bits % 8 or encoded.nbytes > address_bits // 8 or not encoded.size:
            return None
        return int.from_bytes(encoded.tobytes(), "big")
