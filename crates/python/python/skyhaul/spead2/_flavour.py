"""Constants of the protocol, and its variants: the widths of a pointer's parts, and compatibility with old bugs."""

from __future__ import annotations

NULL_ID = 0x00
HEAP_CNT_ID = 0x01
HEAP_LENGTH_ID = 0x02
PAYLOAD_OFFSET_ID = 0x03
PAYLOAD_LENGTH_ID = 0x04
DESCRIPTOR_ID = 0x05
STREAM_CTRL_ID = 0x06

DESCRIPTOR_NAME_ID = 0x10
DESCRIPTOR_DESCRIPTION_ID = 0x11
DESCRIPTOR_SHAPE_ID = 0x12
DESCRIPTOR_FORMAT_ID = 0x13
DESCRIPTOR_ID_ID = 0x14
DESCRIPTOR_DTYPE_ID = 0x15

CTRL_STREAM_START = 0
CTRL_DESCRIPTOR_REISSUE = 1
CTRL_STREAM_STOP = 2
CTRL_DESCRIPTOR_UPDATE = 3

#: Format entries of 4 bytes and shape entries of 8 bytes, regardless of the widths.
BUG_COMPAT_DESCRIPTOR_WIDTHS = 1
#: A dimension of variable size is marked by 2 instead of 1.
BUG_COMPAT_SHAPE_BIT_1 = 2
#: NumPy values have the opposite byte order to their descriptor.
BUG_COMPAT_SWAP_ENDIAN = 4
BUG_COMPAT_PYSPEAD_0_5_2 = 7

MEMCPY_STD = 0
MEMCPY_NONTEMPORAL = 1


class Flavour:
    """A variant of SPEAD: version 4, pointers of 64 bits of which `heap_address_bits` are an address or a value.

    Without arguments: SPEAD-64-40. ValueError for an unsupported variant.
    """

    __slots__ = ("_bug_compat", "_heap_address_bits")

    def __init__(
        self, version: int = 4, item_pointer_bits: int = 64, heap_address_bits: int = 40, bug_compat: int = 0
    ) -> None:
        if version != 4:
            raise ValueError(f"only version 4 of SPEAD is supported, not {version}")
        if item_pointer_bits != 64:
            raise ValueError(f"item pointers have 64 bits, not {item_pointer_bits}")
        if not 8 <= heap_address_bits <= 56 or heap_address_bits % 8:
            raise ValueError(f"addresses have 8, 16 … 56 bits, not {heap_address_bits}")
        self._heap_address_bits = heap_address_bits
        self._bug_compat = check_bug_compat(bug_compat)

    @property
    def version(self) -> int:
        return 4

    @property
    def item_pointer_bits(self) -> int:
        return 64

    @property
    def heap_address_bits(self) -> int:
        return self._heap_address_bits

    @property
    def bug_compat(self) -> int:
        return self._bug_compat

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flavour):
            return NotImplemented
        return (self.heap_address_bits, self.bug_compat) == (other.heap_address_bits, other.bug_compat)

    def __hash__(self) -> int:
        return hash((self.heap_address_bits, self.bug_compat))

    def __repr__(self) -> str:
        return f"Flavour(4, 64, {self.heap_address_bits}, {self.bug_compat})"


def check_bug_compat(bits: int) -> int:
    """The same bits, if all are known."""
    if bits & ~BUG_COMPAT_PYSPEAD_0_5_2:
        raise ValueError(f"unknown bits of bug compatibility: {bits:#x}")
    return int(bits)
