"""Flavours of SPEAD: widths of item pointers, and deviations of older senders."""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass


class BugCompat(enum.IntFlag):
    """Deviations of PySPEAD 0.5.2, for streams from or to such programs."""

    NONE = 0
    #: Fields of a format have 4 bytes and dimensions of a shape 8, in every flavour.
    DESCRIPTOR_WIDTHS = 1
    #: A variable dimension is marked by bit 1, not bit 0.
    SHAPE_BIT_1 = 2
    #: NumPy data are in the opposite byte order to their header.
    SWAP_ENDIAN = 4


@dataclass(frozen=True)
class Flavour:
    """SPEAD-64-XX: `address_bits` is XX, the bits of an immediate value or a heap address (a multiple of 8, 8 to 56).

    SPEAD-64-48, the usual one, has item ids up to 0x7fff and values of 48 bits; SPEAD-64-40 has ids up to 0x7fffff.
    """

    address_bits: int = 48
    bug_compat: int = 0

    def __post_init__(self) -> None:
        for name in ("address_bits", "bug_compat"):
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        if self.address_bits % 8 or not 8 <= self.address_bits <= 56:
            raise ValueError(f"address_bits is {self.address_bits}; hint: a multiple of 8 from 8 to 56, usually 48")
        if not 0 <= self.bug_compat <= 7:
            raise ValueError(f"bug_compat is {self.bug_compat}; hint: a sum of BugCompat members, 0 to 7")

    @property
    def max_id(self) -> int:
        """The largest item id."""
        return int((1 << (63 - self.address_bits)) - 1)
