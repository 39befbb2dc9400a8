"""Sending: heaps, generators of heaps, and streams that send them (`.asyncio` has those for coroutines)."""

from .._ibverbs import SendUdpIbvConfig as UdpIbvConfig
from ._config import GroupMode, RateMethod, StreamConfig
from ._heaps import Heap, HeapGenerator, HeapReference, HeapReferenceList, ItemGroup, PacketGenerator
from ._streams import BytesStream, InprocStream, Stream, SyncStream, TcpStream, UdpIbvStream, UdpStream

__all__ = [
    "BytesStream", "GroupMode", "Heap", "HeapGenerator", "HeapReference", "HeapReferenceList", "InprocStream",
    "ItemGroup", "PacketGenerator", "RateMethod", "Stream", "StreamConfig", "SyncStream", "TcpStream", "UdpIbvConfig",
    "UdpIbvStream", "UdpStream",
]  # fmt: skip
