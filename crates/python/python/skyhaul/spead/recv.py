"""Receiving SPEAD heaps.

    from skyhaul.spead import ItemGroup, recv

    stream = recv.Stream(heap_timeout=0.5)
    stream.add_udp_reader("239.1.2.3:7148", interface="10.0.0.5")
    for heap in stream:                      # or: async for heap in stream
        ...

One stream receives from any number of readers, each on its own thread. A heap ends when it is complete, when the window
passes it, or by `heap_timeout`; a stream ends by a stop item, when all its readers have ended, by `idle_timeout`,
`deadline`, `heap_limit`, `byte_limit` or `stop()`. So a lost packet does not block a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from .. import _native, _place
from .._awaited import Awaited
from .._native import Chunk, Empty, Heap, ReceiveConfig, ReceiveStream, Stopped
from .._place import PlaceData

__all__ = ["Chunk", "ChunkStream", "Empty", "Heap", "PlaceData", "Stopped", "Stream"]


class Options(TypedDict, total=False):
    """Keywords of a stream, described in `ReceiveConfig`."""

    window: int
    substreams: int
    in_order: bool
    unsized_heaps: bool
    largest: int
    heap_timeout: float | None
    key: str
    stop: str | int | None
    idle_timeout: float | None
    deadline: float | None
    heap_limit: int | None
    byte_limit: int | None
    start_at: int | None
    incomplete: bool
    incomplete_payload: bool
    ring: int
    full: str
    overflow: int
    memory: int | None
    remember: int
    remember_for: float
    runs: int
    senders: int
    cpus: list[int]
    name: str
    explicit_start: bool
    counting: str


class Stream(ReceiveStream, Awaited[Heap]):
    """A stream of heaps. The arguments are those of `ReceiveConfig`: keywords, all optional."""

    def __init__(self, **config: Unpack[Options]) -> None:
        self._waiting = []

    # ---- readers, under their usual names

    add_udp_reader: Final = ReceiveStream.add_udp
    add_tcp_reader: Final = ReceiveStream.add_tcp
    add_pcap_reader: Final = ReceiveStream.add_pcap
    add_buffer_reader: Final = ReceiveStream.add_bytes
    add_inproc_reader: Final = ReceiveStream.add_inproc

    # ---- taking heaps: `get` and iteration are native

    def get_nowait(self) -> Heap:
        """The next heap if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the stream is its parent's.
        if not self.forked:
            self.stop()


class ChunkStream(_native.ChunkStream, Awaited[Chunk]):
    """Heaps placed side by side into your own arrays, with one copy from the network; several arrays are filled at a time.

        stream = recv.ChunkStream("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1024")
        for _ in range(4):
            stream.add_free(recv.Chunk(np.zeros((4, 1024), "u1"), heaps=4))
        for chunk in stream:
            use(chunk.id, chunk.data, chunk.present)
            stream.add_free(chunk)

    The three expressions give for each heap the number of its chunk, its index in the chunk, and its first byte there.
    They consist of integers, `+ - * / % & | << >>` and parentheses, `item(ID)` for an immediate item, `counter`,
    `size`, and `stream`, the number of the receiving stream. A heap without a value, or that does not fit, is rejected
    and counted.

    | argument | meaning |
    |---|---|
    | `place`, `items` | instead of the expressions: a compiled function (see below), and the ids of its items |
    | `extra_at`, `extra` | notes: their place in `Chunk.extra` (an expression), and their values, as (expression, bytes) |
    | `counters` | user-defined counters: (name, "sum" or "max", expression); without an expression, the place function adds
    to `batch_stats`, whose elements are these counters in their order, up to 16, once for each heap |
    | `packet_presence` | the payload bytes of a packet: `Chunk.present` marks each packet that arrived, not whole heaps, and
    the index is that of the heap's first packet |
    | `max_chunks`, or `max_bytes` | maximum number of chunks filled at a time, or of their bytes |
    | `ahead` | a heap further ahead than this number of chunks is not followed at once |
    | `streams` | several streams fill one sequence of chunks; readers are added with `stream=0`, `1`, … |
    | `lossless` | the streams wait for each other instead of moving the window past the slowest |
    | `stream_id` | stored in every chunk |

    `place` is a `scipy.LowLevelCallable`, a `numba.cfunc`, or a function of a ctypes library: `void (PlaceData *,
    size_t)`; `skyhaul.spead.numba.place_data` is its type for numba. It reads `items` (an `int64_t *`, -1 for a missing item; ids 1 and 2 are counter and size), and sets
    `chunk_id`, `heap_index` and `heap_offset`, and, for up to 64 bytes of notes in `extra`, `extra_offset` and
    `extra_size`. The readers call it without the GIL at each heap's first packet, concurrently if there are several
    streams; it must not block. Its results are checked like those of expressions.
    """

    def __new__(
        cls,
        chunk: str | None = None,
        index: str | None = None,
        offset: str | None = None,
        *,
        place: Any = None,
        items: Sequence[int] = (),
        extra_at: str | None = None,
        extra: list[tuple[str, int]] | None = None,
        counters: Sequence[tuple[str, str, str] | tuple[str, str]] | None = None,
        max_chunks: int = 2,
        max_bytes: int | None = None,
        ahead: int = 1024,
        lossless: bool = False,
        streams: int = 1,
        stream_id: int = 0,
        packet_presence: int | None = None,
        **config: Unpack[Options],
    ) -> Self:
        if packet_presence is not None and packet_presence < 1:
            raise ValueError(f"packet_presence is {packet_presence}; hint: the payload bytes of a packet, or None")
        counted = [(name, tally, value[0] if value else None) for name, tally, *value in counters or ()]
        if place is None and any(value is None for _, _, value in counted):
            raise ValueError("a counter without an expression is counted by a place function; hint: pass place")
        rule: tuple[str, str, str] | _native.PlaceFunction
        if place is not None and chunk is index is offset is None:
            rule = _place.native(place, items)
        elif place is None and chunk is not None and index is not None and offset is not None:
            rule = chunk, index, offset
        else:
            raise TypeError("a chunk stream needs a rule; hint: pass chunk, index and offset, or place")
        return super().__new__(
            cls, ReceiveConfig(**config), rule, extra_at=extra_at, extra=extra or [],
            counters=counted, max_chunks=max_chunks, max_bytes=max_bytes, ahead=ahead, lossless=lossless,
            streams=streams, stream_id=stream_id, packet_presence=packet_presence or 0,
        )  # fmt: skip

    def __init__(self, *_: Any, **__: Any) -> None:
        self._waiting = []

    def get_nowait(self) -> Chunk:
        """The next chunk if one is queued, else `Empty` (or `Stopped`)."""
        return self.get(0.0)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Chunk:
        try:
            return self.get(None)
        except Stopped:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A forked process may leave the block, too: the stream is its parent's.
        if not self.forked:
            self.stop()
