"""spead2's public names on Skyhaul's streams: a program switches by its imports.

    import skyhaul.spead2 as spead2
    import skyhaul.spead2.recv, skyhaul.spead2.send            also .recv.asyncio, .send.asyncio

Names, arguments and results are those of spead2 4.5; docs/reference/spead2.md lists deliberate differences. New
programs should use `skyhaul.spead`, which has timeouts and all counters.
"""

from ._descriptor import Descriptor, RawDescriptor
from ._flavour import (
    BUG_COMPAT_DESCRIPTOR_WIDTHS,
    BUG_COMPAT_PYSPEAD_0_5_2,
    BUG_COMPAT_SHAPE_BIT_1,
    BUG_COMPAT_SWAP_ENDIAN,
    CTRL_DESCRIPTOR_REISSUE,
    CTRL_DESCRIPTOR_UPDATE,
    CTRL_STREAM_START,
    CTRL_STREAM_STOP,
    DESCRIPTOR_DESCRIPTION_ID,
    DESCRIPTOR_DTYPE_ID,
    DESCRIPTOR_FORMAT_ID,
    DESCRIPTOR_ID,
    DESCRIPTOR_ID_ID,
    DESCRIPTOR_NAME_ID,
    DESCRIPTOR_SHAPE_ID,
    HEAP_CNT_ID,
    HEAP_LENGTH_ID,
    MEMCPY_NONTEMPORAL,
    MEMCPY_STD,
    NULL_ID,
    PAYLOAD_LENGTH_ID,
    PAYLOAD_OFFSET_ID,
    STREAM_CTRL_ID,
    Flavour,
)
from ._errors import Empty, Full, Stopped
from ._inproc import InprocQueue
from ._items import Item, ItemGroup
from ._pools import MemoryAllocator, MemoryPool, MmapAllocator, ThreadPool

__all__ = [
    "BUG_COMPAT_DESCRIPTOR_WIDTHS", "BUG_COMPAT_PYSPEAD_0_5_2", "BUG_COMPAT_SHAPE_BIT_1", "BUG_COMPAT_SWAP_ENDIAN",
    "CTRL_DESCRIPTOR_REISSUE", "CTRL_DESCRIPTOR_UPDATE", "CTRL_STREAM_START", "CTRL_STREAM_STOP",
    "DESCRIPTOR_DESCRIPTION_ID", "DESCRIPTOR_DTYPE_ID", "DESCRIPTOR_FORMAT_ID", "DESCRIPTOR_ID", "DESCRIPTOR_ID_ID",
    "DESCRIPTOR_NAME_ID", "DESCRIPTOR_SHAPE_ID", "Descriptor", "Empty", "Flavour", "Full", "HEAP_CNT_ID",
    "HEAP_LENGTH_ID", "InprocQueue", "Item", "ItemGroup", "MEMCPY_NONTEMPORAL", "MEMCPY_STD", "MemoryAllocator",
    "MemoryPool", "MmapAllocator", "NULL_ID", "PAYLOAD_LENGTH_ID", "PAYLOAD_OFFSET_ID", "RawDescriptor",
    "STREAM_CTRL_ID", "Stopped", "ThreadPool", "parse_range_list",
]  # fmt: skip

#: The version of spead2 whose interface this is.
__version__ = "4.5.1"


def parse_range_list(ranges: str) -> list[int]:
    """The numbers of a list of ranges, as `numactl` writes them: "0,4-6" is [0, 4, 5, 6]."""
    numbers: list[int] = []
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
