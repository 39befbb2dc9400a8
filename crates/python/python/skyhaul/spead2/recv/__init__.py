"""Receiving: streams of heaps and chunks (`.asyncio` has those for coroutines)."""

from .._ibverbs import RecvUdpIbvConfig as UdpIbvConfig
from . import stream_stat_indices
from ._chunks import ChunkRingPair, ChunkRingStream, ChunkStreamConfig, ChunkStreamGroupMember, ChunkStreamRingGroup
from ._config import ChunkStreamGroupConfig, RingStreamConfig, StreamConfig
from ._heaps import Heap, IncompleteHeap, RawItem
from ._rings import Chunk, ChunkRingbuffer
from ._stats import StreamStatConfig, StreamStats
from ._streams import Stream

__all__ = [
    "Chunk", "ChunkRingPair", "ChunkRingStream", "ChunkRingbuffer", "ChunkStreamConfig", "ChunkStreamGroupConfig",
    "ChunkStreamGroupMember", "ChunkStreamRingGroup", "Heap", "IncompleteHeap", "RawItem", "RingStreamConfig", "Stream",
    "StreamConfig", "StreamStatConfig", "StreamStats", "UdpIbvConfig", "stream_stat_indices",
]  # fmt: skip
