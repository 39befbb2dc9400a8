"""SPEAD: streams of heaps, each with items that descriptors explain.

| | |
|---|---|
| `recv.Stream` | heaps from UDP, TCP, captures, memory and queues |
| `send.UdpStream`, `send.TcpStream` … | heaps to them |
| `ItemGroup`, `Item`, `Descriptor` | what the bytes of heaps mean, as NumPy arrays |
| `HeapGenerator` | heaps of what has changed in a group |
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
