"""SPEAD: streams of heaps of items with descriptors.

| | |
|---|---|
| `recv.Stream` | heaps from UDP, TCP, captures, memory and queues |
| `send.UdpStream`, `send.TcpStream` … | heaps to them |
| `ItemGroup`, `Item`, `Descriptor` | the values in heaps, as NumPy arrays |
| `HeapGenerator` | heaps of the changed items of a group |
| `Flavour`, `BugCompat` | widths of item pointers, deviations of older senders |
"""

from .._native import InprocQueue
from . import recv, send
from ._flavour import BugCompat, Flavour
from ._generator import HeapGenerator
from ._items import Descriptor, Item, ItemError, ItemGroup, UpdateError
from .recv import Empty, Stopped

__all__ = [
    "BugCompat", "Descriptor", "Empty", "Flavour", "HeapGenerator", "InprocQueue", "Item", "ItemError", "ItemGroup",
    "Stopped", "UpdateError", "recv", "send",
]  # fmt: skip
